"""report: a profile as one HTML page that needs no network, and a verdict in words."""

from __future__ import annotations

import datetime
import html
import json
import os
import platform
from pathlib import Path
from typing import Any

from rushlight.profiler import _report_data as shown
from rushlight.profiler._breakdown import KINDS, break_down
from rushlight.profiler._peaks import Peaks, measure_peaks
from rushlight.profiler._verdict import Verdict, judge
from rushlight.types import FileLike

__all__ = ["report"]

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("model", "view", "timeline", "flame", "memory", "tables", "roofline", "page")


def _about(prof: Any, events: Any) -> str:
    flags = [name for name in ("record_shapes", "profile_memory", "with_stack", "with_flops",
                               "with_modules") if getattr(prof, name, False)]  # fmt: skip
    when = datetime.datetime.fromtimestamp(events.wall_begin / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    cores = len(os.sched_getaffinity(0))
    kept = f" · recorded with {', '.join(flags)}" if flags else ""
    return f"{when} · {len(events):,} events · {platform.machine()}, {cores} cores{kept}"


def _json(data: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _page(data: dict[str, Any], columns: shown.Columns, title: str) -> str:
    parts = {
        "title": html.escape(title),
        "style": (_PAGE / "style.css").read_text(encoding="utf-8"),
        "data": _json(data),
        "columns": columns.packed(),
        "script": "\n".join(
            (_PAGE / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS
        ),
    }
    page = (_PAGE / "page.html").read_text(encoding="utf-8")
    first, *rest = page.split("{{")
    return first + "".join(parts[name] + text for name, text in (r.split("}}", 1) for r in rest))


def report(
    prof: Any, path: FileLike | None = None, *, title: str = "Rushlight profile",
    peaks: tuple[float, float] | None = None,
) -> Verdict:  # fmt: skip
    """Says what bounds a profiled program, and writes an HTML page with all that was recorded.

    The page holds everything it needs: a time line and a flame graph, memory by what it is for
    (profile_memory=True), tables by module (with_modules=True), op and line, a roofline
    (with_flops=True), and the verdict that is returned and can be printed.

    Arguments:
        prof: a profile that has ended.
        path: the file to write; None for the verdict alone.
        title: what the page is called.
        peaks: floating-point operations and bytes per second of the machine, to compare with; by
            default they are measured, once per process, which takes about a second.

    Example:
        >>> with rl.profiler.profile() as prof:
        ...     x = rl.ones(64, 64) @ rl.ones(64, 64)
        >>> verdict = rl.profiler.report(prof, path=None, title="A product")
        >>> verdict.headline.startswith("The recording")
        True
    """
    events = prof.events()
    known: Peaks | None = None
    if getattr(prof, "with_flops", False):
        known = measure_peaks() if peaks is None else Peaks(float(peaks[0]), float(peaks[1]))
    times = break_down(events, known)
    verdict = judge(events, times, known)
    if path is None:
        return verdict
    columns = shown.Columns()
    names, modules, sources = (shown.Strings("") for _ in range(3))
    threads = shown.threads_and_events(events, times, columns, names, modules, sources)
    data: dict[str, Any] = {
        "about": _about(prof, events),
        "kinds": dict(KINDS),
        "verdict": {
            "headline": verdict.headline,
            "shares": verdict.shares,
            "findings": [vars(finding) for finding in verdict.findings],
        },
        "threads": threads,
        "end": events.time_range.end,
        "steps": times.steps,
        "flame": shown.flame(events, times, names),
        "memory": None,
        "tables": shown.tables(events, times),
        "roofline": shown.roofline(events, known),
    }
    if events.memory is not None:
        data["memory"] = shown.memory(events.memory, columns, names, sources)
    data |= {"names": names.all, "modules": modules.all, "sources": sources.all}
    data["layout"] = columns.layout
    Path(os.fspath(path)).write_text(_page(data, columns, title), encoding="utf-8")
    return verdict
