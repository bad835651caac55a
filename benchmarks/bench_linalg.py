"""Linear algebra against PyTorch (MKL): one matrix of 256, 1,000 of 16, and a few others.

    TORCH_PYTHON=path/to/python python benchmarks/bench_linalg.py [--threads 2] [--only svd]
        [--check]

Bars: at most 2.0 of PyTorch's time for one matrix of 256, 1.0 for 1,000 batches of 16. Without
TORCH_PYTHON only our own times are shown.
"""

import sys

from peer import Case
from peer_table import run

# name -> (statement, is the matrix symmetric and positive?)
FUNCTIONS = {
    "solve": ("lib.linalg.solve(a, b)", False),
    "cholesky": ("lib.linalg.cholesky(a)", True),
    "qr": ("lib.linalg.qr(a)", False),
    "svd": ("lib.linalg.svd(a)", False),
    "eigh": ("lib.linalg.eigh(a)", True),
    "inv": ("lib.linalg.inv(a)", False),
    "det": ("lib.linalg.det(a)", False),
    "lstsq": ("lib.linalg.lstsq(a, b)", False),
    "eig": ("lib.linalg.eig(a)", False),
}
BARRED = ("solve", "cholesky", "qr", "svd", "eigh")


def case(name: str, shape: tuple[int, ...], dtype: str, bar: float | None) -> Case:
    statement, positive = FUNCTIONS[name]
    n = shape[-1]
    setup = f"lib.manual_seed(0); a = lib.randn({', '.join(map(str, shape))}, dtype=lib.{dtype})"
    setup += f"; b = lib.randn({', '.join(map(str, shape[:-1]))}, 4, dtype=lib.{dtype})"
    if positive:
        setup += f"; a = a @ a.mT + {n} * lib.eye({n}, dtype=lib.{dtype})"
    label = f"{name} {'x'.join(map(str, shape))} {dtype}"
    return Case(label, setup, statement, bar if name in BARRED else None)


def cases(quick: bool) -> list[Case]:
    found = []
    for dtype in ("float32",) if quick else ("float32", "float64"):
        for name in BARRED if quick else FUNCTIONS:
            found.append(case(name, (256, 256), dtype, 2.0))
            found.append(case(name, (1000, 16, 16), dtype, 1.0))
    if not quick:
        found += [case(name, (1024, 1024), "float32", None) for name in ("solve", "cholesky", "qr")]
        found += [case(name, (64, 64), "complex64", None) for name in ("solve", "qr", "svd")]
    return found


if __name__ == "__main__":
    sys.exit(run("linalg", __doc__, cases))
