"""The CPU as a device among others."""

from rushlight._names.missing import names_missing_from
from rushlight.cpu import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "set_device", "synchronize"]


def is_available():
    """There is always a CPU."""
    return True


def device_count():
    """One, however many cores it has."""
    return 1


def current_device():
    """The name of the only device."""
    return "cpu"


def set_device(device):
    """Does nothing: there is one device."""


def synchronize(device=None):
    """Does nothing: work on the CPU is done when a call returns."""


__getattr__ = names_missing_from(__name__)
