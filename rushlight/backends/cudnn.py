"""Switches of cuDNN."""

from contextlib import contextmanager

from rushlight._missing import names_missing_from

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available():
    """Whether the build has cuDNN."""
    return False


def version():
    """cuDNN's version; None without it."""
    return None


def is_acceptable(tensor):
    """Whether cuDNN would take the tensor."""
    return False


def set_flags(
    _enabled=None,
    _benchmark=None,
    _benchmark_limit=None,
    _deterministic=None,
    _allow_tf32=None,
    _fp32_precision="none",
):
    """Sets the switches that are given; returns what they were."""
    old = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    given = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
    }
    globals().update({name: value for name, value in given.items() if value is not None})
    return old


@contextmanager
def flags(
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
):
    """The switches for the time of a with block."""
    old = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*old)


__getattr__ = names_missing_from(__name__)
