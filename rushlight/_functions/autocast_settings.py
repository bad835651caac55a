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
    """The dtype of autocast on GPUs."""
    return _C.get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> _dtype:
    """The dtype of autocast on the CPU."""
    return _C.get_autocast_dtype("cpu")


def set_autocast_gpu_dtype(dtype: _dtype) -> None:
    """Sets the dtype of autocast on GPUs."""
    _C.set_autocast_dtype("cuda", dtype)


def set_autocast_cpu_dtype(dtype: _dtype) -> None:
    """Sets the dtype of autocast on the CPU."""
    _C.set_autocast_dtype("cpu", dtype)


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU."""
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switches autocast for the CPU."""
    _C.set_autocast_enabled("cpu", enabled)
