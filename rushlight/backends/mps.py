"""Apple's GPUs: not supported."""

from __future__ import annotations

from rushlight._names.missing import names_missing_from

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_available() -> bool:
    """Whether tensors can live on an Apple GPU."""
    return False


def is_built() -> bool:
    """Whether the build supports Apple GPUs."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether the system is that macOS or a newer one, with a supported GPU."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether the system is macOS 13 or newer, with a supported GPU."""
    return False


__getattr__ = names_missing_from(__name__)
