"""Classes that C++ extensions of PyTorch register: there are none."""

from __future__ import annotations

from rushlight._names.missing import fill
from rushlight.types import FileLike

__all__ = ["load_library"]

loaded_libraries: set[str] = set()


def load_library(path: FileLike) -> None:
    """As ops.load_library: a library that is built for PyTorch is set aside."""
    from rushlight import ops

    ops.load_library(path)  # type: ignore[attr-defined]


fill(globals())
