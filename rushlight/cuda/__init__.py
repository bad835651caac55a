"""NVIDIA GPUs. So far there is none to be found: CUDA kernels do not run yet."""

from rushlight._missing import names_missing_from
from rushlight.cuda._without_devices import *  # noqa: F403
from rushlight.cuda._without_devices import legacy_types as _legacy_types

__all__ = ["amp", "device_count", "is_available", "memory", "nccl", "nvtx", "profiler"]

globals().update(_legacy_types())  # FloatTensor, LongTensor, ...


def is_available():
    """Can tensors live on a GPU?"""
    return False


def device_count():
    """How many GPUs there are."""
    return 0


def _is_compiled():
    return False


from rushlight.cuda import amp as amp  # noqa: E402 -- these import names from above
from rushlight.cuda import comm as comm  # noqa: E402
from rushlight.cuda import memory as memory  # noqa: E402
from rushlight.cuda import nccl as nccl  # noqa: E402
from rushlight.cuda import nvtx as nvtx  # noqa: E402
from rushlight.cuda import profiler as profiler  # noqa: E402
from rushlight.cuda import random as random  # noqa: E402
from rushlight.cuda import streams as streams  # noqa: E402

__getattr__ = names_missing_from(__name__)
