"""NVIDIA GPUs. So far there is none to be found: CUDA kernels do not run yet."""

from rushlight._missing import names_missing_from
from rushlight.cuda import amp

__all__ = ["amp", "device_count", "is_available"]


def is_available():
    """Can tensors live on a GPU?"""
    return False


def device_count():
    """How many GPUs there are."""
    return 0


__getattr__ = names_missing_from(__name__)
