"""Memory over time by what it is for, as the files that PyTorch's export_memory_timeline writes."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from typing import Any

from rushlight.profiler import _memory
from rushlight.profiler._memory import MemoryHistory
from rushlight.profiler._table import format_memory
from rushlight.types import FileLike

__all__ = ["write_memory_timeline"]

# Columns in PyTorch's order, with the names of its categories and a colour.
_COLUMNS = (
    ("PARAMETER", "#2e7d32"), ("OPTIMIZER_STATE", "#d8a020"), ("INPUT", "#455a64"),
    ("TEMPORARY", "#9575cd"), ("ACTIVATION", "#d9534f"), ("GRADIENT", "#3355bb"),
    ("AUTOGRAD_DETAIL", "#6fa8dc"), ("Unknown", "#9e9e9e"),
)  # fmt: skip
_COLUMN_OF = {
    _memory.PARAMETER: 0, _memory.STATE: 1, _memory.INPUT: 2, _memory.TEMPORARY: 3,
    _memory.ACTIVATION: 4, _memory.GRADIENT: 5, _memory.OTHER: 7,
}  # fmt: skip
_PREEXISTING, _CREATE, _DESTROY = 1, 2, 4  # PyTorch's numbers of actions
_WIDTH, _HEIGHT, _LEFT, _TOP = 1100, 480, 80, 40


def _actions(history: MemoryHistory, device: str) -> Iterator[tuple[float | None, int, int, int]]:
    """(microseconds or None, action, change of bytes, column); first what was there before."""
    rest = history.before.get(device, 0)
    for block in history.blocks:
        if block.device == device and block.begin is None:
            rest -= block.bytes
            yield None, _PREEXISTING, block.bytes, _COLUMN_OF[block.category]
    if rest > 0:  # nobody said what it is, and it stayed
        yield None, _PREEXISTING, rest, _COLUMN_OF[_memory.OTHER]
    for time, where, change, block in history.changes:
        if where == device:
            action = _CREATE if change >= 0 else _DESTROY
            yield time, action, change, _COLUMN_OF[block.category]


def _by_column(
    history: MemoryHistory, device: str, wall: int
) -> tuple[list[int], list[list[int]]]:  # fmt: skip
    """Times in whole microseconds, and what each column has from then on; column 0 is empty, as a
    floor on which plots stack the others."""
    times: list[int] = []
    sizes: list[list[int]] = []
    for time, _, change, column in _actions(history, device):
        at = int(wall / 1000 + (time or 0.0))
        if not times or at != times[-1]:
            times.append(at)
            sizes.append(sizes[-1].copy() if sizes else [0] * (len(_COLUMNS) + 1))
        sizes[-1][column + 1] += change
    return times, sizes


def _points(times: list[int], sizes: list[list[int]], most: int) -> Iterator[tuple[int, list[int]]]:
    """At most as many of them, or a few more: of each stretch of time the fullest moment."""
    step = max(1, -(-len(times) // most))
    for first in range(0, len(times), step):
        at = max(range(first, min(first + step, len(times))), key=lambda i: sum(sizes[i]))
        yield times[at], sizes[at]


def _page(times: list[int], sizes: list[list[int]], device: str) -> str:
    """A page with the curves as a drawing; it needs nothing else."""
    points = list(_points(times, sizes, 2 * _WIDTH))
    peak = max((sum(row) for row in sizes), default=0)
    begin = times[0] if times else 0
    length = max((times[-1] - begin) if times else 0, 1)

    def x(time):
        return _LEFT + _WIDTH * (time - begin) / length

    def y(n):
        return _TOP + _HEIGHT * (1 - n / max(peak, 1))

    areas, legend = [], []
    for i, (name, colour) in enumerate(_COLUMNS):
        if not any(row[i + 1] for row in sizes):
            continue
        upper, lower = [], []
        for n, (time, row) in enumerate(points):
            top, floor = y(sum(row[: i + 2])), y(sum(row[: i + 1]))
            until = x(points[n + 1][0]) if n + 1 < len(points) else _LEFT + _WIDTH
            for at in (x(time), until):  # levels hold until the next change
                upper.append(f"{at:.1f},{top:.1f}")
                lower.append(f"{at:.1f},{floor:.1f}")
        areas.append(f'<polygon fill="{colour}" points="{" ".join(upper + lower[::-1])}">'
                     f"<title>{name}</title></polygon>")  # fmt: skip
        legend.append(f'<span><i style="background:{colour}"></i>{name}</span>')
    marks = [
        f'<text x="{_LEFT - 8}" y="{y(peak * i / 4) + 4:.1f}" text-anchor="end">'
        f"{format_memory(int(peak * i / 4))}</text>"
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(peak * i / 4):.1f}" '
        f'y2="{y(peak * i / 4):.1f}"/>' for i in range(5)
    ] + [
        f'<text x="{_LEFT + _WIDTH * i / 8:.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">'
        f"{length * i / 8000:.3g} ms</text>" for i in range(9)
    ]  # fmt: skip
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Memory of {device}</title><style>
body {{ font: 14px system-ui, sans-serif; margin: 24px; color-scheme: light dark; }}
svg {{ max-width: 100%; height: auto; }} text {{ fill: currentColor; font-size: 12px; }}
line {{ stroke: currentColor; stroke-opacity: .15; }} polygon {{ fill-opacity: .8; }}
span {{ margin-right: 18px; }} i {{ display: inline-block; width: 12px; height: 12px;
margin-right: 6px; }}
</style></head><body><h1>Memory of {device}</h1><p>At most {format_memory(peak)}.</p>
<p>{"".join(legend)}</p>
<svg viewBox="0 0 {_LEFT + _WIDTH + 20} {_TOP + _HEIGHT + 40}">{"".join(marks + areas)}</svg>
</body></html>
"""


def write_memory_timeline(path: FileLike, history: MemoryHistory, device: str, wall: int) -> None:
    """Writes the file that the end of the name asks for; `wall` is the time of day at time 0."""
    name = os.fspath(path)
    name = name if isinstance(name, str) else os.fsdecode(name)
    if name.endswith(".html"):
        with open(name, "w", encoding="utf-8") as page:
            page.write(_page(*_by_column(history, device, wall), device))
        return
    found: Any
    if name.endswith("raw.json.gz"):
        found = [
            (-1 if time is None else int(wall + time * 1000), action, change, column)
            for time, action, change, column in _actions(history, device)
        ]
    else:
        found = _by_column(history, device, wall)
    opener: Any = gzip.open if name.endswith(".gz") else open
    with opener(name, "wt", encoding="utf-8") as file:
        json.dump(found, file)
