"""Autocast's settings by their old names, one per kind of device."""

from __future__ import annotations

from rushlight import _C
from rushlight.types import _dtype

__all__ = [
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cpu_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_gpu_dtype",
]


def get_autocast_gpu_dtype() -> _dtype:
    """What products run in under autocast on GPUs: the old form of `get_autocast_dtype`.

    Example:
        >>> rl.get_autocast_gpu_dtype()
        rushlight.float16
    """
    return _C.get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> _dtype:
    """What products run in under autocast on the CPU: the old form of `get_autocast_dtype`.

    Example:
        >>> rl.get_autocast_cpu_dtype()
        rushlight.bfloat16
    """
    return _C.get_autocast_dtype("cpu")


def set_autocast_gpu_dtype(dtype: _dtype) -> None:
    """What products shall run in under autocast on GPUs: the old form of `set_autocast_dtype`.

    Arguments:
        dtype: float16 or bfloat16.

    Example:
        >>> rl.set_autocast_gpu_dtype(rl.bfloat16)
        >>> rl.get_autocast_gpu_dtype()
        rushlight.bfloat16
        >>> rl.set_autocast_gpu_dtype(rl.float16)
    """
    _C.set_autocast_dtype("cuda", dtype)


def set_autocast_cpu_dtype(dtype: _dtype) -> None:
    """What products shall run in under autocast on the CPU: the old form of `set_autocast_dtype`.

    Arguments:
        dtype: bfloat16 or float16.

    Example:
        >>> rl.set_autocast_cpu_dtype(rl.bfloat16)
        >>> rl.get_autocast_cpu_dtype()
        rushlight.bfloat16
    """
    _C.set_autocast_dtype("cpu", dtype)


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU: the old form of `is_autocast_enabled`.

    Example:
        >>> with rl.autocast("cpu"):
        ...     rl.is_autocast_cpu_enabled()
        True
    """
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switches autocast for the CPU on or off; `with autocast("cpu"):` is better.

    Arguments:
        enabled: on or off.

    Example:
        >>> rl.set_autocast_cpu_enabled(False)
        >>> rl.is_autocast_cpu_enabled()
        False
    """
    _C.set_autocast_enabled("cpu", enabled)
