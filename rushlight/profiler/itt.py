"""Ranges for Intel's VTune: none are made here, and is_available() says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether ranges reach Intel's tools: never."""
    return False


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"profiler.itt.{name}: ranges for Intel's tools are not made (is_available() is False); "
        "profiler.record_function names a range for profiles, cuda.nvtx one for NVIDIA's tools"
    )


def range_push(msg: str) -> int:
    """Begins a range; refused."""
    _refuse("range_push")


def range_pop() -> int:
    """Ends the last range; refused."""
    _refuse("range_pop")


def mark(msg: str) -> None:
    """Marks a point in time; refused."""
    _refuse("mark")


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block; refused."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
