"""Marks for NVIDIA's profiler; without a GPU they go nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: Any) -> int:
    """Opens a range; returns its depth."""
    return 0


def range_pop() -> int:
    """Closes the last range; returns its depth."""
    return 0


def range_start(msg: Any) -> int:
    """Opens a range that another thread may close; returns its number."""
    return 0


def range_end(range_id: Any) -> None:
    """Closes a range."""


def mark(msg: Any) -> None:
    """Marks a moment."""


@contextmanager
def range(msg: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A with block as a range; also a decorator."""
    yield
