"""OpenMP: the threads of CPU kernels."""

from __future__ import annotations

from rushlight._names.missing import names_missing_from

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether kernels run on several threads by OpenMP."""
    return True


__getattr__ = names_missing_from(__name__)
