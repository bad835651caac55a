"""Names of PyTorch's cuda that Rushlight answers without having the thing itself: questions get an
honest answer, and what is not there raises."""

# ruff: noqa: F822 -- what refuses is made in a loop

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.cuda._devices import current_device, get_device_capability, is_available

__all__ = [
    "CUDAPluggableAllocator", "DeferredCudaCallError", "check_error", "clock_rate", "cudart",
    "current_blas_handle", "device_memory_used", "get_allocator_backend", "get_gencode_flags",
    "ipc_collect", "is_tf32_supported", "list_gpu_processes", "memory_usage", "power_draw",
    "temperature", "utilization",
]  # fmt: skip

has_half = True


class DeferredCudaCallError(Exception):
    """An error in a call that had to wait for CUDA's start."""


def _refusing(name):
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        current_device()  # without a GPU, that is the reason
        raise NotImplementedError(
            f"cuda.{name}: Rushlight does not have it; docs/compatibility.md lists what there is"
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Is not there; raises."
    return refused


for _name in """cudart current_blas_handle clock_rate power_draw temperature utilization
        memory_usage device_memory_used list_gpu_processes check_error
        CUDAPluggableAllocator""".split():
    globals()[_name] = _refusing(_name)


def ipc_collect() -> None:
    """Frees memory that was sent to other processes and that none of them holds any more."""
    from rushlight.cuda.memory import _collect_sent

    _collect_sent()


def is_tf32_supported() -> bool:
    """Whether the GPU computes in TF32."""
    return is_available() and get_device_capability()[0] >= 8


def get_gencode_flags() -> str:
    """Flags of nvcc for the kernels: none, they are compiled when first used."""
    return ""


def get_allocator_backend() -> str:
    """The allocator of GPU memory."""
    return "native"
