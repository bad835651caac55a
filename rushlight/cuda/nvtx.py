"""Ranges and marks for NVIDIA's tools, such as Nsight Systems; nothing happens where none listens.

A tool says where it is in the variable NVTX_INJECTION64_PATH, as NVTX 3 has it; `nsys profile`
sets it for the programs that it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight import _C

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """Opens a range inside the ranges of this thread; returns its depth, from 0 (-2: no tool)."""
    return _C._nvtx("push", msg)


def range_pop() -> int:
    """Closes the last range of this thread; returns its depth (-2: no tool)."""
    return _C._nvtx("pop", None)


def range_start(msg: str) -> int:
    """Opens a range that another thread may close; returns its number (0: no tool)."""
    return _C._nvtx("start", msg)


def range_end(range_id: int) -> None:
    """Closes the range with this number."""
    _C._nvtx("end", range_id)


def mark(msg: str) -> None:
    """Marks a moment."""
    _C._nvtx("mark", msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A with block as a range, also a decorator; further arguments go to msg.format()."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
