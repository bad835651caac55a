"""Counters of PyTorch's tracer: nothing is counted."""

from collections import Counter, defaultdict

from rushlight._names.missing import names_missing_from

counters = defaultdict(Counter)


def is_compile_supported(device_type):
    """Whether code for a kind of device can be compiled: no."""
    return False


__getattr__ = names_missing_from(__name__)
