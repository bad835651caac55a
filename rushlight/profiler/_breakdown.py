"""Where the time of a thread went: every microsecond of a window belongs to one kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rushlight.profiler._device import is_wait
from rushlight.profiler._peaks import Peaks

__all__ = ["KINDS", "Breakdown", "break_down", "is_copy", "is_range", "main_thread"]

# What a time was spent on.
KINDS = {
    "compute": "kernels that compute",
    "memory": "kernels that move memory",
    "overhead": "calls of small ops",
    "python": "Python between the ops",
    "loader": "waiting for data",
    "communication": "communication",
    "device": "waiting for the GPU",
}
_TINY = 20.0  # us: an op shorter than this, with little to do, is mostly its call
_BUSY = 0.25  # the share of an op's time that its work must be worth, for it to be no mere call
_COPIES = frozenset("aten::" + name for name in ("clone", "contiguous", "copy_", "_to_copy", "to"))
_COMMUNICATION = ("c10d::", "nccl:", "mpi:", "gloo:", "all_reduce", "all_gather", "reduce_scatter",
                  "broadcast", "barrier")  # fmt: skip


def is_range(event: Any) -> bool:
    """Whether it is a part of the program that was named, and no op or node."""
    return bool(event.is_user_annotation or event.is_python_function)


def is_copy(event: Any) -> bool:
    """Whether it is an op that only copies or converts."""
    return event.name in _COPIES


def main_thread(events: Any) -> int:
    """The thread that began the most time: where the loop runs."""
    times: dict[int, float] = {}
    for event in events:
        if event.cpu_parent is None and not event.on_device and event.process is None:
            times[event.thread] = times.get(event.thread, 0.0) + event.cpu_time_total
    return max(times, key=lambda t: times[t]) if times else 1


@dataclass
class Breakdown:
    """Microseconds by kind in a window of one thread; they add up to its length."""

    begin: float = 0.0
    end: float = 0.0
    thread: int = 1
    times: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))
    steps: list[tuple[float, float]] = field(default_factory=list)  # begin and end of each
    ideal: float = 0.0  # what the work of `compute` and `memory` would take at the peaks
    optimizer: float = 0.0  # inside steps of optimisers, of whatever kind
    ops: int = 0  # outermost calls of ops and nodes
    kind_of: dict[int, str] = field(default_factory=dict)  # by the event's id
    gaps: list[tuple[float, Any, Any]] = field(default_factory=list)  # between these events

    @property
    def total(self) -> float:
        return self.end - self.begin

    def share(self, *kinds: str) -> float:
        """The part of the window that these kinds take, from 0 to 1."""
        return sum(self.times[k] for k in kinds) / self.total if self.total else 0.0


def _window(events: list[Any], thread: int) -> tuple[float, float, list[tuple[float, float]]]:
    steps = [
        (e.time_range.start, e.time_range.end)
        for e in events
        if e.thread == thread and e.key == "ProfilerStep*" and e.finished
    ]
    if steps:
        return steps[0][0], steps[-1][1], steps
    # Without a schedule, the step of an optimiser ends a step of the loop.
    ends = [
        e.time_range.end
        for e in events
        if e.thread == thread and e.name.startswith("Optimizer.step#")
    ]
    tops = [e for e in events
            if e.thread == thread and e.cpu_parent is None and not e.on_device]  # fmt: skip
    if not tops:
        return 0.0, 0.0, []
    begin, end = tops[0].time_range.start, max(e.time_range.end for e in tops)
    edges = [begin, *ends]
    steps = list(pairwise(edges))
    return begin, end, steps


def _own_kind(event: Any, peaks: Peaks | None, found: Breakdown) -> tuple[str, bool]:
    """The kind of an event's own time, and whether the events inside it are of that kind too."""
    name = event.name
    if name.startswith("enumerate(DataLoader)"):
        return "loader", True
    if name.startswith(_COMMUNICATION):
        return "communication", True
    if is_range(event):
        return "python", False
    if is_wait(event):
        return "device", True
    if event.device_call or event.device_time_total:  # the host only queues the work
        return "overhead", False
    time = event.cpu_time_total
    if peaks is None or not (event.flops or event.bytes):
        tiny = event.self_cpu_time_total < _TINY or (peaks is not None and not event.bytes)
        # A node that has ops inside, or an op that only calls others: its own time is the call.
        return ("overhead" if tiny or event.cpu_children else "memory"), False
    by_flops = 1e6 * (event.flops or 0) / peaks.flops
    by_bytes = 1e6 * event.bytes / peaks.bytes
    ideal = max(by_flops, by_bytes)
    if time < _TINY and ideal < _BUSY * time:
        return "overhead", True
    found.ideal += min(ideal, time)
    return ("compute" if by_flops >= by_bytes else "memory"), True


def break_down(events: Any, peaks: Peaks | None) -> Breakdown:
    """Of the thread that runs the loop; peaks are None where costs were not recorded."""
    thread = main_thread(events)
    begin, end, steps = _window(events, thread)
    found = Breakdown(begin, end, thread, steps=steps)
    inherited: dict[int, str] = {}
    at, before = begin, None  # the end of the outermost event before, and that event
    for event in events:
        start, stop = event.time_range.start, event.time_range.end
        outside = stop <= begin or start >= end
        if event.thread != thread or outside or event.on_device or event.name == "[memory]":
            continue
        parent = event.cpu_parent
        kind = inherited.get(parent.id) if parent is not None else None
        if kind is None:
            kind, whole = _own_kind(event, peaks, found)
            if not is_range(event) and (parent is None or is_range(parent)):
                found.ops += not event.device_call
        else:
            whole = True
        if whole:
            inherited[event.id] = kind
        found.kind_of[event.id] = kind
        if event.name.startswith("Optimizer.step#"):
            found.optimizer += event.cpu_time_total
        inside = sum(_overlap(c, begin, end) for c in event.cpu_children)
        found.times[kind] += max(0.0, _overlap(event, begin, end) - inside)
        if parent is None:
            if start > at:
                found.times["python"] += start - at
                found.gaps.append((start - at, before, event))
            at, before = max(at, stop), event
    found.times["python"] += max(0.0, end - max(at, begin))
    found.gaps.sort(key=lambda gap: -gap[0])
    return found


def _overlap(event: Any, begin: float, end: float) -> float:
    return max(0.0, min(event.time_range.end, end) - max(event.time_range.start, begin))
