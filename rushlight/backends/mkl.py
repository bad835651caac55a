"""Intel's MKL: not used."""

from __future__ import annotations

from rushlight._names.missing import names_missing_from

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether the build has MKL."""
    return False


__getattr__ = names_missing_from(__name__)
