"""explain and stats: what compile made of a program."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight import _C
from rushlight.compiler._compile import Options, call_fused

COUNTERS = ("deferred", "dropped", "passes", "fused", "unfused", "flushes", "not_kept")
NOT_KEPT = COUNTERS.index("not_kept")
FROZEN_COUNTERS = ("recorded", "replayed", "audited", "python")


def _counted(n, what):
    plural = "es" if what.endswith("s") else "s"
    return f"{n} {what}{plural if n != 1 else ''}"


@dataclass
class Step:
    """One op: what it computes, at which line, and whether its value went to memory."""

    name: str
    file: str | None
    line: int | None
    function: str | None
    kept: bool

    @property
    def place(self) -> str:
        if self.file is None:
            return "outside of Python"
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}"

    @property
    def text(self) -> str:
        if self.file is None or self.line is None:
            return ""
        return linecache.getline(self.file, self.line).strip()


@dataclass
class Pass:
    """Steps of one shape: in one pass over memory (fused), or one after the other.

    Casts of several tensors by one launch have no shape.
    """

    steps: list[Step]
    shape: tuple[int, ...] | None
    inputs: int
    fused: bool


@dataclass
class Flush:
    """A moment at which everything that waited ran, and why."""

    why: str
    place: str
    passes: list[Pass]
    dropped: list[Step]


@dataclass
class Explanation:
    """What explain found; prints as text."""

    result: Any = field(repr=False)
    flushes: list[Flush]
    frozen: list[str] = field(default_factory=list)  # of a frozen function: what there is of it
    not_kept: int = 0  # bytes of saved tensors that backward makes again

    @property
    def passes(self) -> list[Pass]:
        return [p for flush in self.flushes for p in flush.passes]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self):
        yield from self.frozen
        fused = [p for p in self.passes if p.fused]
        alone = sum(len(p.steps) for p in self.passes if not p.fused)
        dropped = sum(len(f.dropped) for f in self.flushes)
        steps = sum(len(p.steps) for p in fused)
        yield (
            f"{_counted(steps, 'op')} in {_counted(len(fused), 'pass')}, "
            f"{alone} one by one, {dropped} never computed"
        )
        if self.not_kept:
            yield f"{self.not_kept:,} bytes saved for backward are not kept: it makes them again"
        for flush in self.flushes:
            yield ""
            for p in flush.passes:
                kind = "one pass" if p.fused else "one by one"
                kept = sum(step.kept for step in p.steps)
                over = "many tensors" if p.shape is None else p.shape
                yield (
                    f"{kind} over {over}: {_counted(len(p.steps), 'op')}, "
                    f"{_counted(p.inputs, 'input')}, {_counted(kept, 'result')} kept"
                )
                for step in p.steps:
                    mark = "*" if step.kept else " "
                    yield f"  {mark} {step.name:<16} {step.place}  {step.text}"
            for step in flush.dropped:
                yield f"never computed: {step.name} {step.place}"
            yield f"-- ran because {flush.why} ({flush.place})"


def _step(raw):
    name, line, kept = raw
    return Step(name, *(line or (None, None, None)), kept)


def _flush(raw):
    why, line, groups, dropped = raw
    place = Step("", *(line or (None, None, None)), False).place
    passes = [
        Pass([_step(s) for s in steps], None if sizes == [-1] else tuple(sizes), inputs, fused)
        for fused, sizes, inputs, steps in groups
    ]
    return Flush(why, place, passes, [_step(s) for s in dropped])


def flush_text(raw: tuple[Any, ...]) -> str:
    """One line about a flush, as the core has it: for the log."""
    flush = _flush(raw)
    fused = [p for p in flush.passes if p.fused]
    return (
        f"{_counted(sum(len(p.steps) for p in fused), 'op')} in {_counted(len(fused), 'pass')} "
        f"ran because {flush.why} ({flush.place})"
    )


def explain(
    fn: Callable[..., Any], *, options: dict[str, Any] | None = None
) -> Callable[..., Explanation]:
    """explain(fn)(*args, **kwargs) runs fn as compile would, and tells what was fused.

    ``fn`` may be a function, a module, or what compile returned. The answer prints as text; its
    ``result`` is what fn returned.

    Arguments:
        fn: a function.
        options: as for compile.

    Example:
        >>> report = rl.compiler.explain(lambda x: (x + 1).relu() * 2, options=None)(rl.ones(4))
        >>> type(report).__name__
        'Explanation'
    """
    if not callable(fn):
        raise _C.ArgumentTypeError(f"explain: expected a callable, got {type(fn).__name__}")
    settings = getattr(fn, "_options", None) or Options(options)
    frozen = settings.frozen

    def call(args, kwargs):
        return fn(*args, **kwargs) if frozen else call_fused(settings, fn, args, kwargs)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        before = _C._deferred_counters()[NOT_KEPT]
        result, flushes = _C._deferred_report(lambda: call(args, kwargs))
        lines = frozen.lines() if frozen else []
        not_kept = _C._deferred_counters()[NOT_KEPT] - before
        return Explanation(result, [_flush(f) for f in flushes], lines, not_kept)

    return run


_since = dict.fromkeys(COUNTERS, 0)


def stats() -> dict[str, int]:
    """Counts since the start or reset(), of this thread.

    ``deferred`` ops, of which ``dropped`` were never computed, ``fused`` ran in ``passes``, and
    ``unfused`` ran one by one; ``flushes`` is how often what waited had to run; ``not_kept`` bytes
    that were saved for backward are made again there. Of frozen functions, in all threads: calls
    ``recorded``, ``replayed``, ``audited``, left to ``python``.

    Example:
        >>> f = rl.compile(lambda x: (x + 1).relu() * 2, options={"least_elements": 0})
        >>> rl.compiler.reset()
        >>> y = f(rl.ones(8)).tolist()
        >>> rl.compiler.stats()["deferred"]
        3
    """
    now = dict(zip(COUNTERS, _C._deferred_counters(), strict=False))
    frozen = sys.modules.get("rushlight.compiler._frozen")
    told = {name: now[name] - _since[name] for name in COUNTERS}
    return told | (frozen.counts() if frozen else dict.fromkeys(FROZEN_COUNTERS, 0))


def reset() -> None:
    """Starts the counts of stats() anew, and drops what frozen functions have recorded.

    Example:
        >>> rl.compiler.reset()
        >>> rl.compiler.stats()["deferred"]
        0
    """
    _since.update(zip(COUNTERS, _C._deferred_counters(), strict=False))
    if "rushlight.compiler._frozen" in sys.modules:
        sys.modules["rushlight.compiler._frozen"].forget()
