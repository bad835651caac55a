"""Autocast's settings by their old names, one per kind of device."""

from rushlight import _C

__all__ = [
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cpu_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_gpu_dtype",
]


def get_autocast_gpu_dtype():
    """The dtype of autocast on GPUs."""
    return _C.get_autocast_dtype("cuda")


def get_autocast_cpu_dtype():
    """The dtype of autocast on the CPU."""
    return _C.get_autocast_dtype("cpu")


def set_autocast_gpu_dtype(dtype):
    """Sets the dtype of autocast on GPUs."""
    _C.set_autocast_dtype("cuda", dtype)


def set_autocast_cpu_dtype(dtype):
    """Sets the dtype of autocast on the CPU."""
    _C.set_autocast_dtype("cpu", dtype)


def is_autocast_cpu_enabled():
    """Whether autocast is on for the CPU."""
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled):
    """Switches autocast for the CPU."""
    _C.set_autocast_enabled("cpu", enabled)
