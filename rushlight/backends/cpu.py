"""What the CPU at hand can do."""

from __future__ import annotations

from rushlight._names.missing import names_missing_from

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest instructions that kernels use: 'AVX512', 'AVX2' or 'DEFAULT'."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(flags):
        return "AVX512"
    return "AVX2" if {"avx2", "fma"} <= set(flags) else "DEFAULT"


__getattr__ = names_missing_from(__name__)
