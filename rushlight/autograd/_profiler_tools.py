"""Smaller parts of PyTorch's older profiler: what nvprof wrote, counts of steps, strings."""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import Any, ClassVar

from rushlight.autograd.profiler_util import EventList, FunctionEvent
from rushlight.types import FileLike

__all__ = ["EnforceUnique", "KinetoStepTracker", "load_nvprof", "parse_nvprof_trace"]


class EnforceUnique:
    """Raises when it sees the same thing twice."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Notes what it has not seen yet."""
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


class KinetoStepTracker:
    """How many steps a program has taken, where several may count them: the largest count holds."""

    _current_step = 0
    _step_dict: ClassVar[dict[str, int]] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Begins to count for somebody, at the present step."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forgets somebody's count; whether there was one."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Somebody took a step; returns the step of the program."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The step of the program."""
        return cls._current_step


def load_nvprof(path: FileLike) -> EventList:
    """The ranges of emit_nvtx, with their kernels, from a file that `nvprof -o file` wrote."""
    return EventList(parse_nvprof_trace(path), use_device="cuda")


def parse_nvprof_trace(path: FileLike) -> list[FunctionEvent]:
    """The same as a list, in order of beginning. nvprof's times are nanoseconds."""
    import os
    import sqlite3

    place = os.fspath(path)
    if not os.path.exists(place):
        raise FileNotFoundError(f"load_nvprof: there is no file {place!r}")
    database = sqlite3.connect(place)
    try:
        texts = dict(database.execute("SELECT _id_, value FROM StringTable"))
        # A range has two markers: its begin, with a name, and its end, without.
        markers = database.execute(
            "SELECT id, name, timestamp FROM CUPTI_ACTIVITY_KIND_MARKER ORDER BY timestamp"
        ).fetchall()
        calls = database.execute(
            "SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start"
        ).fetchall()
        kernels = {
            correlation: (name, begin, end)
            for correlation, name, begin, end in database.execute(
                "SELECT correlationId, name, start, end FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
            )
        }
    finally:
        database.close()
    begun: dict[int, tuple[int, int]] = {}
    unique = EnforceUnique()
    events = []
    starts = [start for _, start, _ in calls]
    for marker, name, time in markers:
        if name:
            begun[marker] = name, time
            continue
        if marker not in begun:  # it began before nvprof did
            continue
        unique.see(marker)
        title, start = begun.pop(marker)
        event = FunctionEvent(marker, texts[title], 0, start / 1000, time / 1000)
        for at in range(bisect.bisect_right(starts, start), bisect.bisect_left(starts, time)):
            correlation, _, end = calls[at]
            if correlation in kernels and end < time:
                kernel, ran, ended = kernels[correlation]
                event.append_kernel(texts.get(kernel, str(kernel)), 0, (ended - ran) / 1000)
        events.append(event)
    return sorted(events, key=lambda event: event.time_range.start)
