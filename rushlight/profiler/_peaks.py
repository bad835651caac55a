"""What this machine can do: multiply-adds and bytes per second, measured once per process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

from rushlight import _C
from rushlight.autograd import no_grad

__all__ = ["Peaks", "measure_peaks"]


@dataclass(frozen=True)
class Peaks:
    """The most that was measured: floating-point operations and bytes per second."""

    flops: float
    bytes: float
    threads: int = 1


def _best(work, rounds):
    """The shortest of several runs: what else the machine does only makes them longer."""
    work()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


@cache
def measure_peaks() -> Peaks:
    """A float32 product of 1,024 x 1,024 matrices, and an addition over 64 MB; a third of a
    second."""
    size = 1024
    with no_grad():
        a, b, out = (_C.ones([size, size]) for _ in range(3))
        product = _best(lambda: _C.mm(a, b, out=out), 5)
        x, y = _C.ones([1 << 24]), _C.ones([1 << 24])
        copy = _best(lambda: y.copy_(x), 5)
    return Peaks(2 * size**3 / product, 2 * 4 * (1 << 24) / copy, _C.get_num_threads())
