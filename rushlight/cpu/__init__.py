"""The CPU as a device among others."""

from __future__ import annotations

from rushlight._names.missing import names_missing_from
from rushlight.cpu import amp, memory
from rushlight.types import Device

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "is_available",
    "memory",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """There is always a CPU."""
    return True


def device_count() -> int:
    """One, however many cores it has."""
    return 1


def current_device() -> str:
    """The name of the only device."""
    return "cpu"


def set_device(device: Device | str | int) -> None:
    """Does nothing: there is one device."""


def synchronize(device: Device | str | int | None = None) -> None:
    """Does nothing: work on the CPU is done when a call returns."""


__getattr__ = names_missing_from(__name__)
