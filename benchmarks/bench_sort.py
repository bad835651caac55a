"""Sorting, distinct elements and order statistics of a million numbers against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_sort.py [--threads 2] [--only topk]
        [--check]

Bar: at most 1.05 of PyTorch's time for sort, unique, topk and kthvalue of 1 M. Without TORCH_PYTHON
only our own times are shown.
"""

import sys

from peer import Case
from peer_table import run

MILLION = 1 << 20
NUMBERS = {
    "float32": "x = lib.randn({n})",
    "float64": "x = lib.randn({n}, dtype=lib.float64)",
    "int64": "x = lib.randint(-10**6, 10**6, ({n},))",
    "int32": "x = lib.randint(-10**6, 10**6, ({n},)).to(lib.int32)",
}
STATEMENTS = {
    "sort": "lib.sort(x)",
    "unique": "lib.unique(x)",
    "topk 100": "lib.topk(x, 100)",
    "kthvalue middle": "lib.kthvalue(x, x.numel() // 2)",
}
OTHERS = {
    "argsort stable": "lib.argsort(x, stable=True)",
    "topk 10000": "lib.topk(x, 10000)",
    "median": "lib.median(x)",
    "unique with inverse": "lib.unique(x, return_inverse=True)",
    "unique_consecutive": "lib.unique_consecutive(x)",
    "quantile": "lib.quantile(x, 0.3)",
    "histc": "lib.histc(x, 100, -3, 3)",
}
# What else of this family few programs wait for: a number per element.
SPECIAL = {
    "igamma": "lib.igamma(x.abs() * 10, x.abs().flip(0) * 10)",
    "special.ndtri": "lib.special.ndtri(x.sigmoid())",
    "special.bessel_j0": "lib.special.bessel_j0(x * 10)",
    "polygamma 1": "lib.polygamma(1, x.abs() * 10)",
}


def case(name: str, statement: str, dtype: str, bar: float | None = None) -> Case:
    setup = f"lib.manual_seed(0); {NUMBERS[dtype].format(n=MILLION)}"
    return Case(f"{name} of 1 M {dtype}", setup, statement, bar)


def cases(quick: bool) -> list[Case]:
    dtypes = ("float32",) if quick else ("float32", "int64")
    found = [case(n, s, d, 1.05) for d in dtypes for n, s in STATEMENTS.items()]
    if quick:
        return found
    found += [case(n, s, d) for d in ("float64", "int32") for n, s in STATEMENTS.items()]
    found += [case(n, s, "float32") for n, s in OTHERS.items() if n != "quantile"]
    rows = "lib.manual_seed(0); x = lib.randn(1024, 1024)"
    found.append(Case("sort rows 1024x1024 float32", rows, "lib.sort(x, 1)"))
    found.append(Case("topk 10 rows 1024x1024 float32", rows, "lib.topk(x, 10)"))
    found.append(Case("quantile rows 1024x1024 float32", rows, "lib.quantile(x, 0.3, 1)"))
    small = "lib.manual_seed(0); x = lib.randn(100000)"
    found += [Case(f"{n} of 100,000 float32", small, s) for n, s in SPECIAL.items()]
    return found


if __name__ == "__main__":
    sys.exit(run("sort", __doc__, cases))
