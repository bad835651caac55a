"""What GPUs did: their kernels, copies and fills as events, tied to the ops that queued them, and
when they had nothing to do."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Any

from rushlight.autograd.profiler_util import DeviceType, FunctionEvent, Kernel

__all__ = ["DeviceTimes", "add_device_events", "device_times", "is_wait"]

KERNEL, COPY, FILL, CALL = 0, 1, 2, 3  # kinds, as the core numbers them

_WAITS = frozenset((
    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cudaStreamSynchronize",
    "cudaDeviceSynchronize", "cudaEventSynchronize", "cuMemcpyDtoH", "cudaMemcpy",
))  # fmt: skip
_MEMORY = frozenset((
    "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuMemCreate", "cuMemRelease",
    "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cudaMalloc", "cudaFree",
))  # fmt: skip
_CATEGORIES = {KERNEL: "kernel", COPY: "gpu_memcpy", FILL: "gpu_memset"}


def is_wait(event: Any) -> bool:
    """Whether it is a call in which the host waits for the GPU."""
    return event.device_call and event.name in _WAITS


@dataclass
class _Threads:
    """Numbers of threads by what the operating system calls them."""

    numbers: dict[int, int] = field(default_factory=dict)

    def number(self, system: int) -> int:
        if system not in self.numbers:
            self.numbers[system] = max(self.numbers.values(), default=0) + 1
        return self.numbers[system]


def _device_event(raw: tuple[Any, ...], number: int, begin: int) -> FunctionEvent:
    (kind, name, device, stream, correlation, start, end, moved, grid, block, registers, shared,
     graph) = raw  # fmt: skip
    event = FunctionEvent(number, name, stream, (start - begin) / 1000, (end - begin) / 1000)
    event.device_type = DeviceType.CUDA
    event.device_index = device
    event.use_device = "cuda"
    event.activity = _CATEGORIES[kind]
    event.correlation = correlation
    event.bytes = moved
    if kind == KERNEL:
        event.launch = {"grid": list(grid), "block": list(block),
                        "registers per thread": registers, "shared memory": shared}  # fmt: skip
    if graph:
        event.launch["graph id"] = graph
    return event


def _call_event(raw: tuple[Any, ...], number: int, begin: int, threads: _Threads) -> FunctionEvent:
    _, name, _, system_thread, correlation, start, end, *_ = raw
    # The driver's functions have the number of their version in their names.
    name = name.removesuffix("_v2").removesuffix("_v3")
    event = FunctionEvent(
        number, name, threads.number(system_thread), (start - begin) / 1000, (end - begin) / 1000
    )
    event.system_thread = system_thread
    event.activity = "cuda_runtime" if name.startswith("cuda") else "cuda_driver"
    event.device_call = True
    event.correlation = correlation
    return event


def add_device_events(
    raw: list[tuple[Any, ...]], begin: int, number: int, events: list[FunctionEvent]
) -> tuple[list[FunctionEvent], list[FunctionEvent]]:
    """What ran on GPUs, and the calls that queued it, with ids above `number`."""
    threads = _Threads({e.system_thread: e.thread for e in events})
    ran: list[FunctionEvent] = []
    calls: list[FunctionEvent] = []
    for item in raw:
        number += 1
        if item[0] == CALL:
            calls.append(_call_event(item, number, begin, threads))
            continue
        ran.append(_device_event(item, number, begin))
    by_correlation = {call.correlation: call for call in calls}
    for event in ran:
        event.call = by_correlation.get(event.correlation)
    return ran, calls


def name_waits(waits: list[FunctionEvent], calls: list[FunctionEvent]) -> None:
    """Calls get the line of the op around them; reads of values, which are no ops, the line that
    the core noted before it waited."""
    noted: dict[int, list[FunctionEvent]] = {}
    for wait in waits:
        noted.setdefault(wait.thread, []).append(wait)
    starts = {thread: [w.time_range.start for w in found] for thread, found in noted.items()}
    for call in calls:
        parent = call.cpu_parent
        if parent is not None and not (parent.is_user_annotation or parent.is_python_function):
            call.source = parent.source
        elif call.thread in noted:
            at = bisect.bisect_right(starts[call.thread], call.time_range.start) - 1
            if at >= 0:
                call.source = noted[call.thread][at].source


def link_device_events(ran: list[FunctionEvent]) -> None:
    """Ops get the time of what they queued, and that gets their lines and modules."""
    for event in ran:
        if event.call is None:
            continue
        op = event.launcher = event.call.cpu_parent
        event.source = event.call.source
        if op is None:
            continue
        time = event.time_range.elapsed_us()
        op.kernels.append(Kernel(event.name, event.device_index, time))
        event.source, event.module, event.stack = op.source, op.module, op.stack
        event.external_id = op.id
        at: FunctionEvent | None = op
        while at is not None:
            at._device_time += time
            at = at.cpu_parent


# Why a GPU had nothing to do.
CAUSES = {
    "sync": "the host waited for the GPU, and had queued nothing after that",
    "loader": "the host waited for data",
    "memory": "the host got memory from the driver",
    "overhead": "the host called ops",
    "python": "the host ran Python",
    "communication": "the host communicated",
    "queue": "between kernels that were queued already",
}


@dataclass
class Idle:
    """A stretch in which a GPU ran nothing."""

    begin: float
    end: float
    line: str | None  # of the program
    cause: str = "queue"  # a key of CAUSES
    before: Any = None  # what ran next

    @property
    def length(self) -> float:
        return self.end - self.begin


@dataclass
class DeviceTimes:
    """What a GPU did from its first activity to its last, in a window; times are microseconds."""

    device: int
    begin: float = 0.0
    end: float = 0.0
    busy: float = 0.0  # something ran
    kernels: float = 0.0  # a kernel that computes ran
    copies: float = 0.0  # copies and fills, without what overlaps kernels
    communication: float = 0.0  # kernels that communicate
    overlap: float = 0.0  # of these, while kernels that compute ran
    idle: list[Idle] = field(default_factory=list)

    @property
    def total(self) -> float:
        return self.end - self.begin

    def idle_by_cause(self) -> dict[str, float]:
        """Microseconds by cause, most first."""
        sums: dict[str, float] = {}
        for gap in self.idle:
            sums[gap.cause] = sums.get(gap.cause, 0.0) + gap.length
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _length(spans: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def _is_communication(event: Any) -> bool:
    return "nccl" in event.name.lower()


class _Host:
    """What the thread of the loop did, as stretches of one kind each."""

    def __init__(self, events: Any, thread: int, kind_of: dict[int, str]) -> None:
        self.waits: list[Any] = []
        self.starts: list[float] = []
        self.pieces: list[tuple[float, float, str, Any]] = []
        open_: list[Any] = []
        at = 0.0
        for event in events:
            if event.id not in kind_of or event.thread != thread:
                continue
            start = event.time_range.start
            at = self._close(open_, start, at, kind_of)
            at = self._add(open_[-1] if open_ else None, at, start, kind_of)
            open_.append(event)
            if is_wait(event):
                self.waits.append(event)
        self._close(open_, float("inf"), at, kind_of)
        self.wait_ends = [w.time_range.end for w in self.waits]

    def _close(self, open_, until, at, kind_of):
        while open_ and open_[-1].time_range.end <= until:
            at = self._add(open_[-1], at, open_[-1].time_range.end, kind_of)
            open_.pop()
        return at

    def _add(self, event, start, end, kind_of):
        if end > start:
            kind = "python" if event is None else kind_of[event.id]
            if event is not None and event.device_call and event.name in _MEMORY:
                kind = "memory"
            self.starts.append(start)
            self.pieces.append((start, end, kind, event))
        return max(start, end)

    def wait_before(self, begin: float, end: float) -> Any:
        """The wait that ended inside, or None."""
        # A wait ends some microseconds after what it waited for.
        place = bisect.bisect_left(self.wait_ends, begin)
        if place < len(self.waits) and self.wait_ends[place] <= end:
            return self.waits[place]
        return None

    def most_of(self, begin: float, end: float) -> tuple[str, Any]:
        """What was done for the longest, and the event of the longest piece."""
        sums: dict[str, float] = {}
        longest: tuple[float, Any] = (0.0, None)
        for i in range(max(0, bisect.bisect_right(self.starts, begin) - 1), len(self.pieces)):
            start, stop, kind, event = self.pieces[i]
            if start >= end:
                break
            time = min(stop, end) - max(start, begin)
            if time <= 0:
                continue
            kind = kind if kind in CAUSES else "overhead"
            sums[kind] = sums.get(kind, 0.0) + time
            if time > longest[0] and event is not None:
                longest = time, event
        return (max(sums, key=lambda k: sums[k]) if sums else "python"), longest[1]


def _cause(host: _Host, begin: float, after: Any) -> tuple[str, str | None]:
    """Why nothing ran from `begin` until `after` did."""
    end = after.time_range.start
    line = after.source
    if after.call is not None and after.call.time_range.start <= begin:
        return "queue", line
    if (wait := host.wait_before(begin, end)) is not None:
        return "sync", wait.source or line
    launched = end if after.call is None else after.call.time_range.start
    kind, event = host.most_of(begin, max(launched, begin))
    return kind, (event.source if event is not None and event.source else line)


def device_times(events: Any, times: Any) -> list[DeviceTimes]:
    """Of each GPU in the window of the loop (rushlight.profiler._breakdown.Breakdown)."""
    ran: dict[int, list[Any]] = {}
    for event in events:
        if event.activity in _CATEGORIES.values() and times.begin <= event.time_range.start:
            if event.call is None or event.call.time_range.start <= times.end:
                ran.setdefault(event.device_index, []).append(event)
    if not ran:
        return []
    host = _Host(events, times.thread, times.kind_of)
    return [_times_of(device, ran[device], host) for device in sorted(ran)]


def _times_of(device: int, ran: list[Any], host: _Host) -> DeviceTimes:
    ran = sorted(ran, key=lambda e: e.time_range.start)
    found = DeviceTimes(device, ran[0].time_range.start, max(e.time_range.end for e in ran))

    def spans(which):
        return _union([(e.time_range.start, e.time_range.end) for e in ran if which(e)])

    computing = spans(lambda e: e.activity == "kernel" and not _is_communication(e))
    communicating = spans(_is_communication)
    found.busy = _length(spans(lambda e: True))
    found.kernels = _length(computing)
    found.communication = _length(communicating)
    found.overlap = found.kernels + found.communication - _length(_union(computing + communicating))
    found.copies = found.busy - _length(_union(computing + communicating))
    busy_until = ran[0].time_range.end
    for event in ran[1:]:
        if event.time_range.start > busy_until:
            cause, line = _cause(host, busy_until, event)
            found.idle.append(Idle(busy_until, event.time_range.start, line, cause, event))
        busy_until = max(busy_until, event.time_range.end)
    return found
