"""profile and record_function: the time of blocks and of named parts of them."""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from rushlight.profiler._schedule import ProfilerAction, ProfilerActivity
from rushlight.types import FileLike, Number, Self

__all__ = ["profile", "record_function", "tensorboard_trace_handler"]

_active = []  # the profilers that record at present
_lock = threading.Lock()


class record_function:
    """Names a part of a program, as a with block or a decorator; running profilers time it."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._starts = []

    def __enter__(self) -> Self:
        self._starts.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        start = self._starts.pop()
        if _active:
            event = _Event(self.name, start, time.perf_counter_ns(), threading.get_ident())
            with _lock:
                for profiler in _active:
                    profiler._events.append(event)
        return False

    def __call__(self, function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def timed(*args, **kwargs):
            with record_function(self.name):
                return function(*args, **kwargs)

        return timed


class _Event:
    def __init__(self, name: str, start: int, end: Number, thread: Any) -> None:
        self.name = self.key = name
        self.start, self.end, self.thread = start, end, thread
        self.count = 1

    @property
    def cpu_time_total(self) -> Any:
        return (self.end - self.start) / 1000

    cpu_time = cpu_time_total


class _Average:
    """All events of one name."""

    def __init__(self, key: Any) -> None:
        self.key, self.count, self.cpu_time_total = key, 0, 0.0

    @property
    def cpu_time(self) -> Any:
        return self.cpu_time_total / max(self.count, 1)

    self_cpu_time_total = property(lambda self: self.cpu_time_total)
    device_time = device_time_total = self_device_time_total = 0.0
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0
    cpu_memory_usage = self_cpu_memory_usage = flops = 0


class EventList(list):
    """Averages by name; table() prints them."""

    def table(self, sort_by: str | None = None, row_limit: int = 100,
              max_src_column_width: int = 75, header: Any = None, **_: Any) -> str:  # fmt: skip
        """The rows as text, the largest first."""
        rows = sorted(self, key=lambda e: e.cpu_time_total, reverse=True)[
            : max(row_limit, 0) or None
        ]
        width = max([len("Name"), *(len(e.key) for e in rows)])
        line = f"{'-' * width}  {'-' * 14}  {'-' * 14}  {'-' * 10}"
        text = [header] if header else []
        text += [
            line,
            f"{'Name':>{width}}  {'CPU total':>14}  {'CPU time avg':>14}  {'# of Calls':>10}",
            line,
        ]
        text += [
            f"{e.key:>{width}}  {_milliseconds(e.cpu_time_total)}  {_milliseconds(e.cpu_time)}  "
            f"{e.count:>10}"
            for e in rows
        ]
        return "\n".join([*text, line])

    @property
    def self_cpu_time_total(self) -> Any:
        return sum(e.cpu_time_total for e in self)

    def total_average(self) -> Any:
        total = _Average("Total")
        for event in self:
            total.count += event.count
            total.cpu_time_total += event.cpu_time_total
        return total

    def export_chrome_trace(self, path: FileLike) -> Any:
        """Nothing to write: averages have no place in time."""
        raise NotImplementedError("EventList.export_chrome_trace: call it on the profiler")

    def __str__(self) -> str:
        return self.table()


def _milliseconds(microseconds):
    return f"{microseconds / 1000:>12.3f}ms"


def _default_schedule_fn(_):
    """Every step is recorded."""
    return ProfilerAction.RECORD


class profile:
    """Times a with block, or the steps of a loop, and what record_function names inside.

    Operators are not recorded one by one yet.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, Sequence[str]]]
        | None = None,
        schedule: Any = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self._schedule = schedule or _default_schedule_fn
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self._schedule(0)
        self._events = []
        self._step_start: int | None = None

    def start(self) -> None:
        """Begins to record, if this step is to be recorded."""
        self._step_start = time.perf_counter_ns()
        self._follow(ProfilerAction.NONE, self.current_action)

    def stop(self) -> None:
        """Ends recording; hands the record to on_trace_ready."""
        self._note_step()
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._end_recording()
            self._ready()

    def step(self) -> None:
        """Says that the next step begins."""
        self._note_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._end_recording()
            self._ready()
            before = ProfilerAction.NONE
        self._follow(before, self.current_action)
        self._step_start = time.perf_counter_ns()

    def _note_step(self):
        if self in _active and self._step_start is not None:
            name = f"ProfilerStep#{self.step_num}"
            self._events.append(
                _Event(name, self._step_start, time.perf_counter_ns(), threading.get_ident())
            )

    def _follow(self, before, now):
        recording = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if now in recording and before not in recording:
            self._events = []
            with _lock:
                _active.append(self)
        elif now not in recording:
            self._end_recording()

    def _end_recording(self):
        with _lock:
            if self in _active:
                _active.remove(self)

    def _ready(self):
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        self.stop()
        return False

    def events(self) -> Any:
        """What was recorded, in order of ending."""
        return EventList(self._events)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any
    ) -> Any:
        """What was recorded, by name."""
        found: dict[str, Any] = defaultdict(lambda: None)
        for event in self._events:
            if found[event.name] is None:
                found[event.name] = _Average(event.name)
            found[event.name].count += 1
            found[event.name].cpu_time_total += event.cpu_time_total
        return EventList(found.values())

    def export_chrome_trace(self, path: str) -> None:
        """Writes what was recorded as JSON that chrome://tracing and Perfetto read."""
        pid = os.getpid()
        events = [
            {"ph": "X", "cat": "user_annotation", "name": e.name, "pid": pid, "tid": e.thread,
             "ts": e.start / 1000, "dur": (e.end - e.start) / 1000}
            for e in self._events
        ]  # fmt: skip
        import gzip

        opener = gzip.open if str(path).endswith(".gz") else open
        with opener(path, "wt") as file:
            json.dump({"traceEvents": events}, file)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> Any:
        """Stacks are not recorded."""
        raise NotImplementedError("profile.export_stacks: stacks are not recorded yet")

    def add_metadata(self, key: str, value: str) -> None:
        """Kept out of the record."""

    def add_metadata_json(self, key: str, value: str) -> None:
        """Kept out of the record."""


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Any:
    """An on_trace_ready that writes each record into a folder."""

    def handle(profiler):
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        file = f"{name}.{time.time_ns()}.pt.trace.json{ending}"
        profiler.export_chrome_trace(os.path.join(dir_name, file))

    return handle
