"""What workers of a DataLoader do while a profile records: each records itself, batch by batch, and
sends its events in front of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight import _C

__all__ = ["WorkerEvents", "recorders", "recording"]

# The process, the number of the worker, and its events as the core gives them.
WorkerEvents = tuple[int, int, list[tuple[Any, ...]]]
# Called by loaders with what a worker sent. Workers are asked to record while there is one.
recorders: list[Callable[[WorkerEvents], None]] = []


@contextmanager
def recording(worker: int, batch: int) -> Iterator[list[tuple[Any, ...]]]:
    """In a worker: records the block, whose events stand in the list after its end."""
    found: list[tuple[Any, ...]] = []
    session = _C._profiler_start(0)
    range_ = _C._profiler_begin_range(f"DataLoader worker {worker}: batch {batch}", 0)
    failed = True
    try:
        yield found
        failed = False
    finally:
        _C._profiler_end_range(range_, failed)
        _C._profiler_stop(session)
        found += _C._profiler_events(session)[3]
