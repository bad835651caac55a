"""Watching the first steps of a program: values first, then times and memory."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.doctor._keepers import keepers_of
from rushlight.doctor._rules import findings_of
from rushlight.doctor._watch import Enough, Observer
from rushlight.profiler._breakdown import Breakdown, break_down
from rushlight.profiler._peaks import measure_peaks
from rushlight.profiler._verdict import Finding, Verdict, judge, left_behind
from rushlight.profiler.profiler import profile
from rushlight.types import FileLike

__all__ = ["Diagnosis", "examine", "watch"]

_VALUES, _TIMES = 5, 5  # steps whose values are looked at, and steps that are timed
# Findings of the profiler that mean a fault, not merely that there is something to gain.
_FAULTS = ("Ops in float64", "Memory grows")
_LONG_GAP = 2000.0  # us
_BUSY = 0.1
_WORTH = 1.25  # how many times faster a step must become for copies to be told of


@dataclass
class Diagnosis:
    """What was found; prints as text."""

    findings: list[Finding] = field(default_factory=list)
    steps: int = 0
    verdict: Verdict | None = None  # of the steps that were timed
    error: str | None = None  # the traceback, where the program ended with an exception
    busy: float = 0.0  # the share of the timed steps in which other programs had the CPU

    def __str__(self) -> str:
        lines = []
        if self.error:
            lines.append(f"The program ended with an exception:\n{self.error}")
        if not self.steps:
            lines.append("No step of an optimiser was seen.")
        elif not self.findings:
            lines.append(f"Nothing was found in {self.steps} steps.")
        lines += [f"{i}. {finding}" for i, finding in enumerate(self.findings, 1)]
        if self.busy > _BUSY:
            lines.append(f"Times were judged with care: for {100 * self.busy:.0f}% of the time the "
                         "CPU was with other programs.")  # fmt: skip
        elif self.verdict is not None:
            lines.append(self.verdict.headline)
        return "\n".join(lines)


def _waited_for_a_cpu() -> float:
    """For how many microseconds this thread was ready to run, and others ran."""
    try:
        with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
            return int(file.read().split()[1]) / 1000
    except (OSError, ValueError, IndexError):
        return 0.0


def _works_in_the_loop(times: Breakdown, stolen: float) -> bool:
    """Whether long gaps come back at the same place, step by step. Many short ones are how Python
    programs are; a long one here and there is the machine doing something else. The time in which
    others had the CPU may have been in them."""
    places: dict[Any, list[float]] = {}
    for gap, before, after in times.gaps:
        if gap >= _LONG_GAP:
            place = None if before is None else before.source, after.name
            places.setdefault(place, []).append(gap)
    often = [gaps for gaps in places.values() if len(gaps) >= max(2, 0.6 * len(times.steps))]
    return sum(map(sum, often)) - stolen >= 0.3 * (times.total - stolen)


def _waits_for_data(events: Any, times: Breakdown, stolen: float) -> bool:
    """Whether batches usually take longer than it costs to have them made by another process."""
    waits = sorted(e.cpu_time_total for e in events if e.name.startswith("enumerate(DataLoader)"))
    # Workers bring batches in bursts, and once they have to start.
    if len(waits) < 2 or sum(waits[:-1]) / (len(waits) - 1) < _LONG_GAP:
        return False
    return times.times["loader"] - stolen >= 0.3 * (times.total - stolen)


class _Session:
    """Watches values for some steps, then times some more, then may end the program."""

    def __init__(self, values: int, times: int, stop: bool) -> None:
        self._values, self._times, self._stop = values, times, stop
        self.steps = 0
        self.observer = Observer(self._on_step)
        self.profile: Any = None
        self.stolen = 0.0  # us of the timed steps in which this thread waited for a CPU
        self._open = False
        self.done = False
        self.keeper: str | None = None  # of what steps leave behind

    def open(self) -> None:
        self.observer.open()
        self._open = True

    def close(self) -> None:
        if self._open:
            self._open = False
            self.observer.close()
        if self.profile is not None and not self.done:
            self.stolen += _waited_for_a_cpu()
            self._hook.remove()
            self.profile.stop()
        self.done = True

    def _on_step(self) -> None:
        self.steps += 1
        if self.steps == self._values:
            self._open = False
            self.observer.close()
            from rushlight.optim import optimizer

            self.profile = profile(record_shapes=True, profile_memory=True, with_flops=True)
            self.profile.start()
            self.stolen = -_waited_for_a_cpu()
            self._hook = optimizer.register_optimizer_step_post_hook(self._on_timed_step)

    def _on_timed_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.done or not self.observer.counts(optimizer):
            return
        self.steps += 1
        if self.steps >= self._values + self._times:
            self.done = True
            self.stolen += _waited_for_a_cpu()
            self._hook.remove()
            self.profile.stop()
            self._look_for_keepers()
            if self._stop:
                raise Enough

    def _look_for_keepers(self) -> None:
        """While the program's variables are there."""
        events = self.profile.events()
        if events.memory is not None:
            blocks = left_behind(events.memory, break_down(events, None))
            if blocks:
                self.keeper = keepers_of(blocks)

    def diagnosis(self) -> Diagnosis:
        found = Diagnosis(findings_of(self.observer.notes), self.steps)
        if self.profile is not None and self.steps > self._values + 1:
            events, peaks = self.profile.events(), measure_peaks()
            times = break_down(events, peaks)
            found.verdict = judge(events, times, peaks)
            found.busy = min(1.0, self.stolen / times.total) if times.total else 0.0
            faults = [*_FAULTS]
            if found.busy <= _BUSY:
                faults.append("Copies")
            if _works_in_the_loop(times, self.stolen):
                faults.append("Python runs between")
            if _waits_for_data(events, times, self.stolen):
                faults.append("The loop waits")
            found.findings += [
                f
                for f in found.verdict.findings
                if f.title.startswith(tuple(faults))
                and (f.gain >= _WORTH or not f.title.startswith("Copies"))
            ]
            for finding in found.findings:
                if finding.title.startswith("Memory grows") and self.keeper:
                    finding.evidence += f"; {self.keeper}"
        return found


@contextlib.contextmanager
def watch(steps: int = _VALUES, timed: int = _TIMES) -> Iterator[Diagnosis]:
    """Watches the training inside a with block; what it yields is filled in when the block ends.

    The values of the first steps are looked at, the next ones are timed. Both slow a program down;
    what comes after them runs as usual.
    """
    session = _Session(max(2, int(steps)), max(2, int(timed)), stop=False)
    result = Diagnosis()
    session.open()
    try:
        yield result
    finally:
        session.close()
        vars(result).update(vars(session.diagnosis()))


def examine(
    script: FileLike, arguments: Sequence[str] = (), *, steps: int = _VALUES, timed: int = _TIMES
) -> Diagnosis:
    """Runs a program until enough of its steps were seen, and says what is wrong with them."""
    path = os.fspath(script)
    if not os.path.exists(path):
        raise FileNotFoundError(f"doctor: there is no program {str(path)!r}")
    session = _Session(max(2, int(steps)), max(2, int(timed)), stop=True)
    before, paths = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    error = None
    session.open()
    try:
        runpy.run_path(str(path), run_name="__main__")
    except Enough:
        pass
    except SystemExit as left:
        if left.code not in (None, 0):
            error = f"SystemExit: {left.code}"
    except Exception:
        error = traceback.format_exc()
    finally:
        session.close()
        sys.argv, sys.path[:] = before, paths
    found = session.diagnosis()
    found.error = error
    return found
