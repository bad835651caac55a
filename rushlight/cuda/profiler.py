"""Says to a tool outside (Nsight Systems with --capture-range=cudaProfilerApi) when to record."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["init", "profile", "start", "stop"]


@cache
def _driver() -> Any:
    from rushlight import cuda

    return ctypes.CDLL("libcuda.so.1") if cuda.is_available() else None


def _tell(function: str) -> None:
    driver = _driver()
    if driver is None:
        return
    from rushlight import cuda

    cuda.init()
    cuda.synchronize()  # also makes the context the thread's own
    error = getattr(driver, function)()
    if error != 0:
        raise RuntimeError(f"cuda.profiler: {function} failed with error {error} of the driver")


def init(output_file: Any, flags: Any = None, output_mode: str = "key_value") -> None:
    """Files and flags belong to a tool that NVIDIA gave up: refused."""
    raise NotImplementedError(
        "cuda.profiler.init: the driver's own profiler is gone since CUDA 12; use "
        "rushlight.profiler.profile, or start the program under `nsys profile`"
    )


def start() -> None:
    """Begins a recording, of tools that wait for it; waits for the GPU."""
    _tell("cuProfilerStart")


def stop() -> None:
    """Ends it."""
    _tell("cuProfilerStop")


@contextmanager
def profile() -> Iterator[None]:
    """A with block as a recording."""
    start()
    try:
        yield
    finally:
        stop()
