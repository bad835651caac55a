"""Fourier transforms against PyTorch (MKL): long rows, images, real input, odd lengths.

    TORCH_PYTHON=path/to/python python benchmarks/bench_fft.py [--threads 2] [--only rfft] [--check]

Bars: at most 3.0 of PyTorch's time for one row of 2^20, 1.5 for 64 images of 1024 x 1024. Without
TORCH_PYTHON only our own times are shown.
"""

import sys

from peer import Case
from peer_table import run


def case(name: str, shape: tuple[int, ...], dtype: str, bar: float | None = None) -> Case:
    setup = f"x = lib.ones({', '.join(map(str, shape))}, dtype=lib.{dtype})"
    return Case(f"{name} {'x'.join(map(str, shape))} {dtype}", setup, f"lib.fft.{name}(x)", bar)


def cases(quick: bool) -> list[Case]:
    found = [case("fft", (1 << 20,), "complex64", 3.0)]
    if quick:
        return [*found, case("fft2", (8, 1024, 1024), "complex64", 1.5)]
    return [
        *found,
        case("fft2", (64, 1024, 1024), "complex64", 1.5),
        case("fft", (1 << 20,), "complex128"),
        case("rfft", (1 << 20,), "float32"),
        case("irfft", ((1 << 19) + 1,), "complex64"),
        case("fft", (1000, 1024), "complex64"),
        case("rfft", (1000, 1024), "float32"),
        case("fft", (10000, 64), "complex64"),
        case("fft", (1000, 1000), "complex64"),
        case("fft", (100, 1009), "complex64"),  # a prime
        case("fft", (1 << 10,), "complex64"),
        case("fftn", (64, 64, 64), "complex64"),
        case("fft2", (8, 512, 512), "complex128"),
    ]


if __name__ == "__main__":
    sys.exit(run("fft", __doc__, cases))
