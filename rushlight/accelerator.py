"""The accelerator of the machine, whatever its kind: a CUDA device, or none."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._names.missing import names_missing_from
from rushlight.types import Device

if TYPE_CHECKING:
    from rushlight.cuda import Stream

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def _cuda():
    from rushlight import cuda

    return cuda


def is_available() -> bool:
    """Whether there is an accelerator.

    Example:
        >>> isinstance(rl.accelerator.is_available(), bool)
        True
    """
    return _cuda().is_available()


def device_count() -> int:
    """How many accelerators there are.

    Example:
        >>> rl.accelerator.device_count() >= 0
        True
    """
    return _cuda().device_count()


def current_accelerator(check_available: bool = False) -> Device:
    """The kind of accelerator as a device without a number; None where there is none.

    Arguments:
        check_available: None as well where there is one that cannot be used.

    Example:
        >>> device = rl.accelerator.current_accelerator(check_available=True)
        >>> device is None or device.type
        True
    """
    return _C.device("cuda") if is_available() else None


def _needed(what):
    if not is_available():
        raise _C.DeviceError(f"accelerator.{what}: there is no accelerator here, only the CPU")


def current_device_index() -> int:
    """The number of the current accelerator."""
    _needed("current_device_index")
    return _cuda().current_device()


def set_device_index(device: Device | str | int) -> None:
    """Makes another accelerator the current one."""
    _needed("set_device_index")
    _cuda().set_device(device)


current_device_idx = current_device_index
set_device_idx = set_device_index


def current_stream(device: Device | str | int | None = None) -> Stream:
    """The stream that work is given to."""
    _needed("current_stream")
    return _cuda().current_stream(device)


def set_stream(stream: Stream) -> None:
    """Makes another stream the current one."""
    _needed("set_stream")
    _cuda().set_stream(stream)


def synchronize(device: Device | str | int | None = None) -> None:
    """Waits until the accelerator has done its work; does nothing without one."""
    if is_available():
        _cuda().synchronize(device)


def empty_cache() -> None:
    """Gives cached memory back to the accelerator; does nothing without one."""
    if is_available():
        _cuda().empty_cache()


def _memory(name, device_index):
    _needed(name)
    return getattr(_cuda(), name)(device_index)


def memory_allocated(device_index: Device | str | int | None = None, /) -> int:
    """Bytes that tensors on the accelerator take."""
    return _memory("memory_allocated", device_index)


def max_memory_allocated(device_index: Device | str | int | None = None, /) -> int:
    """The most that memory_allocated has been."""
    return _memory("max_memory_allocated", device_index)


def memory_reserved(device_index: Device | str | int | None = None, /) -> int:
    """Bytes that the allocator holds, in use or not."""
    return _memory("memory_reserved", device_index)


def max_memory_reserved(device_index: Device | str | int | None = None, /) -> int:
    """The most that memory_reserved has been."""
    return _memory("max_memory_reserved", device_index)


def memory_stats(device_index: Device | str | int | None = None, /) -> OrderedDict[str, Any]:
    """What the allocator counts, by name; empty without an accelerator."""
    return _cuda().memory_stats(device_index) if is_available() else {}


def get_memory_info(device_index: Device | str | int | None = None, /) -> tuple[int, int]:
    """(free, total) bytes of the accelerator's memory."""
    return _memory("mem_get_info", device_index)


def reset_peak_memory_stats(device_index: Device | str | int | None = None, /) -> None:
    """Starts the maxima anew."""
    return _memory("reset_peak_memory_stats", device_index)


def reset_accumulated_memory_stats(device_index: Device | str | int | None = None, /) -> None:
    """Starts the running counts anew."""
    return _memory("reset_accumulated_memory_stats", device_index)


class device_index:
    """Another accelerator as the current one, for the time of a with block."""

    def __init__(self, device: int | None, /) -> None:
        self.device = device

    def __enter__(self) -> None:
        if self.device is not None:
            self.before = current_device_index()
            set_device_index(self.device)

    def __exit__(self, *error: object) -> None:
        if self.device is not None:
            set_device_index(self.before)


__getattr__ = names_missing_from(__name__)
