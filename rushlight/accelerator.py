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
    """The number of the current accelerator. Raises a DeviceError where there is none.

    Example:
        >>> rl.accelerator.current_device_index() if rl.accelerator.is_available() else 0
        0
    """
    _needed("current_device_index")
    return _cuda().current_device()


def set_device_index(device: Device | str | int) -> None:
    """Makes another accelerator the current one. Raises a DeviceError where there is none.

    Arguments:
        device: its number, or a device such as "cuda:1".

    Example:
        >>> if rl.accelerator.is_available():
        ...     rl.accelerator.set_device_index(0)
        >>> rl.accelerator.current_device_index() if rl.accelerator.is_available() else 0
        0
    """
    _needed("set_device_index")
    _cuda().set_device(device)


current_device_idx = current_device_index
set_device_idx = set_device_index


def current_stream(device: Device | str | int | None = None) -> Stream:
    """The stream that work is given to. Raises a DeviceError where there is no accelerator.

    Arguments:
        device: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> len([rl.accelerator.current_stream(i) for i in range(count)]) == count
        True
    """
    _needed("current_stream")
    return _cuda().current_stream(device)


def set_stream(stream: Stream) -> None:
    """Makes another stream the current one. Raises a DeviceError where there is no accelerator.

    Arguments:
        stream: a stream, such as rushlight.cuda.Stream().

    Example:
        >>> x = rl.ones(2)
        >>> if rl.accelerator.is_available():
        ...     rl.accelerator.set_stream(rl.accelerator.current_stream())
        ...     x = x.to(rl.accelerator.current_accelerator())
        >>> (x + 1).tolist()
        [2.0, 2.0]
    """
    _needed("set_stream")
    _cuda().set_stream(stream)


def synchronize(device: Device | str | int | None = None) -> None:
    """Waits until the accelerator has done its work; does nothing without one.

    Arguments:
        device: which accelerator; None is the current one.

    Example:
        >>> x = rl.ones(2, device=rl.accelerator.current_accelerator() or "cpu") * 3
        >>> rl.accelerator.synchronize()
        >>> x.tolist()
        [3.0, 3.0]
    """
    if is_available():
        _cuda().synchronize(device)


def empty_cache() -> None:
    """Gives cached memory back to the accelerator; does nothing without one.

    Example:
        >>> rl.accelerator.empty_cache() is None
        True
    """
    if is_available():
        _cuda().empty_cache()


def _memory(name, device_index):
    _needed(name)
    return getattr(_cuda(), name)(device_index)


def memory_allocated(device_index: Device | str | int | None = None, /) -> int:
    """Bytes that tensors on the accelerator take. Raises a DeviceError where there is none.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> all(rl.accelerator.memory_allocated(i) >= 0 for i in range(count))
        True
    """
    return _memory("memory_allocated", device_index)


def max_memory_allocated(device_index: Device | str | int | None = None, /) -> int:
    """The most that memory_allocated has been. Raises a DeviceError where there is no accelerator.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> all(rl.accelerator.max_memory_allocated(i) >= 0 for i in range(count))
        True
    """
    return _memory("max_memory_allocated", device_index)


def memory_reserved(device_index: Device | str | int | None = None, /) -> int:
    """Bytes that the allocator holds, in use or not. Raises a DeviceError without an accelerator.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> all(rl.accelerator.memory_reserved(i) >= 0 for i in range(count))
        True
    """
    return _memory("memory_reserved", device_index)


def max_memory_reserved(device_index: Device | str | int | None = None, /) -> int:
    """The most that memory_reserved has been. Raises a DeviceError where there is no accelerator.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> all(rl.accelerator.max_memory_reserved(i) >= 0 for i in range(count))
        True
    """
    return _memory("max_memory_reserved", device_index)


def memory_stats(device_index: Device | str | int | None = None, /) -> OrderedDict[str, Any]:
    """What the allocator counts, by name; empty without an accelerator.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> rl.accelerator.memory_stats(None).get("allocated_bytes.all.peak", 0) >= 0
        True
    """
    return _cuda().memory_stats(device_index) if is_available() else {}


def get_memory_info(device_index: Device | str | int | None = None, /) -> tuple[int, int]:
    """(free, total) bytes of the accelerator's memory. Raises a DeviceError where there is none.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> infos = [rl.accelerator.get_memory_info(i) for i in range(count)]
        >>> all(free <= total for free, total in infos)
        True
    """
    return _memory("mem_get_info", device_index)


def reset_peak_memory_stats(device_index: Device | str | int | None = None, /) -> None:
    """Starts the maxima anew. Raises a DeviceError where there is no accelerator.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> all(rl.accelerator.reset_peak_memory_stats(i) is None for i in range(count))
        True
    """
    return _memory("reset_peak_memory_stats", device_index)


def reset_accumulated_memory_stats(device_index: Device | str | int | None = None, /) -> None:
    """Starts the running counts anew. Raises a DeviceError where there is no accelerator.

    Arguments:
        device_index: which accelerator; None is the current one.

    Example:
        >>> count = rl.accelerator.device_count()
        >>> all(rl.accelerator.reset_accumulated_memory_stats(i) is None for i in range(count))
        True
    """
    return _memory("reset_accumulated_memory_stats", device_index)


class device_index:
    """Another accelerator as the current one, for the time of a with block.

    Arguments:
        device: its number; None changes nothing.

    Example:
        >>> with rl.accelerator.device_index(0 if rl.accelerator.is_available() else None):
        ...     x = rl.ones(2, device=rl.accelerator.current_accelerator() or "cpu")
        >>> x.tolist()
        [1.0, 1.0]
    """

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
