"""The start and end of NVIDIA's profiler; without a GPU there is nothing to record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["init", "profile", "start", "stop"]


def init(output_file: Any, flags: Any = None, output_mode: str = "key_value") -> None:
    """Sets the profiler up."""


def start() -> None:
    """Begins to record."""


def stop() -> None:
    """Ends recording."""


@contextmanager
def profile() -> Iterator[None]:
    """Records a with block."""
    yield
