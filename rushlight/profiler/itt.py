"""Ranges for Intel's VTune: none are made here, and is_available() says so.

Programs that name ranges run as they do in PyTorch where no tool listens: nothing happens. Under a
tool (INTEL_LIBITTNOTIFY64 names it) a warning says that it will not see them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]

_told = False


def is_available() -> bool:
    """Whether ranges reach Intel's tools: never."""
    return False


def _warn_under_a_tool() -> None:
    global _told
    if _told or not os.environ.get("INTEL_LIBITTNOTIFY64"):
        return
    _told = True
    warnings.warn("profiler.itt: ranges for Intel's tools are not made; profiler.record_function "
                  "names a range for profiles, cuda.nvtx one for NVIDIA's tools",
                  stacklevel=3)  # fmt: skip


def range_push(msg: str) -> None:
    """Begins a range."""
    _warn_under_a_tool()


def range_pop() -> None:
    """Ends the last range."""


def mark(msg: str) -> None:
    """Marks a point in time."""
    _warn_under_a_tool()


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block; further arguments go to msg.format()."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
