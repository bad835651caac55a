"""Switches of cuDNN. `backends.cudnn.benchmark = True` reaches the library as it is written."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

from rushlight._C import Tensor, _cuda
from rushlight._names.missing import names_missing_from

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]

benchmark_limit = 10
fp32_precision = "none"


def _switch(name):
    return property(
        lambda module: getattr(_cuda, f"get_{name}")(),
        lambda module, value: getattr(_cuda, f"set_{name}")(bool(value)),
    )


class _Switches(types.ModuleType):
    enabled = _switch("cudnn_enabled")
    benchmark = _switch("cudnn_benchmark")
    deterministic = _switch("cudnn_deterministic")
    allow_tf32 = _switch("convolution_tf32")


_module = sys.modules[__name__]
_module.__class__ = _Switches


def is_available() -> bool:
    """Whether there is a GPU with cuDNN.

    Example:
        >>> isinstance(rl.backends.cudnn.is_available(), bool)
        True
    """
    return _cuda.device_count() > 0 and version() is not None


def version() -> int | None:
    """cuDNN's version as an int, 91000 for 9.10; None without it.

    Example:
        >>> (rl.backends.cudnn.version() or 0) >= 0
        True
    """
    return _cuda.cudnn_version() or None


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN would take the tensor.

    It takes floating-point numbers on a GPU, unless it is switched off.

    Arguments:
        tensor: the tensor.

    Example:
        >>> rl.backends.cudnn.is_acceptable(rl.ones(2))  # on the CPU
        False
    """
    return tensor.is_cuda and _module.enabled and tensor.is_floating_point()


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[bool, bool, int, bool, bool]:
    """Sets the switches that are given; returns what they were.

    They are those of `flags`, with an underscore before each name; None leaves one as it is.

    Returns:
        tuple: enabled, benchmark, benchmark_limit, deterministic and allow_tf32 as they were.

    Example:
        >>> before = rl.backends.cudnn.set_flags(_benchmark=True)
        >>> rl.backends.cudnn.benchmark
        True
        >>> len(rl.backends.cudnn.set_flags(*before))
        5
    """
    given = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
    }
    old = tuple(getattr(_module, name) for name in given)
    for name, value in given.items():
        if value is not None:
            setattr(_module, name, value)
    return old


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """The switches of cuDNN for the time of a with block. What is not given has its default there.

    Arguments:
        enabled: whether cuDNN is used; the default switches it off.
        benchmark: tries algorithms of a convolution and keeps the fastest.
        benchmark_limit: kept only.
        deterministic: takes only algorithms that always give the same bits.
        allow_tf32: convolutions of float32 may be computed in TF32.
        fp32_precision: accepted.

    Example:
        >>> with rl.backends.cudnn.flags(enabled=True, deterministic=True):
        ...     rl.backends.cudnn.deterministic
        True
    """
    old = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*old)


__getattr__ = names_missing_from(__name__)
