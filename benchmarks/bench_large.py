"""Large pointwise ops, reductions, sorting and indexing against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_large.py [--threads 1 2] [--quick]
        [--sizes 1000x1000 odd 4M 64M] [--only sort topk] [--check]

Bars: at most 1.05 of PyTorch's time each, geometric mean at most 0.85, and `add` within 10% of a
plain copy of the same bytes. Without TORCH_PYTHON only our own times are shown. One thread is timed
by its own clock, which a busy machine does not disturb; two by the wall's.
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Result, Side, compare, geometric_mean, markdown, write_report

BAR, MEAN_BAR, COPY_BAR = 1.05, 0.85, 1.10
SIZES = {  # a matrix, and a cube of about as many elements
    "1000x1000": ((1000, 1000), (100, 100, 100)),
    "odd": ((1237, 811), (7, 333, 431)),
    "4M": ((2048, 2048), (160, 160, 164)),
    "64M": ((8192, 8192), (400, 400, 419)),
}
SEED = "lib.manual_seed(0)"


def pointwise(rows: int, columns: int) -> list[tuple[str, str, str]]:
    m = f"m = lib.rand({rows}, {columns}) - 0.5"
    two = f"{m}; k = lib.rand({rows}, {columns})"
    return [
        ("add", two, "m + k"),
        ("mul", two, "m * k"),
        ("exp", m, "m.exp()"),
        ("tanh", m, "m.tanh()"),
        ("where", f"{two}; c = m > 0", "lib.where(c, m, k)"),
        ("softmax chain", m, "e = (m - m.amax(1, True)).exp(); e / e.sum(1, True)"),
        ("add rows", f"{m}; r = lib.rand({columns})", "m + r"),
        ("add transposed", f"{m}; k = lib.rand({columns}, {rows})", "m + k.t()"),
    ]


def reductions(rows: int, columns: int, cube: tuple[int, int, int]) -> list[tuple[str, str, str]]:
    m = f"m = lib.rand({rows}, {columns})"
    c = f"c = lib.rand{cube}"
    return [
        ("sum", m, "m.sum()"),
        *((f"sum dim {d}", m, f"m.sum({d})") for d in range(2)),
        *((f"sum dim {d} of 3", c, f"c.sum({d})") for d in range(3)),
        ("max", m, "m.max()"),
        *((f"max dim {d}", m, f"m.max({d})") for d in range(2)),
        ("argmax", m, "m.argmax()"),
        *((f"argmax dim {d}", m, f"m.argmax({d})") for d in range(2)),
        *((f"cumsum dim {d}", m, f"m.cumsum({d})") for d in range(2)),
        ("cumsum flat", f"{m}.view(-1)", "m.cumsum(0)"),
    ]


def ordering(rows: int, columns: int) -> list[tuple[str, str, str]]:
    m = f"m = lib.rand({rows}, {columns})"
    cases = [
        *((f"sort dim {d}", m, f"m.sort({d})") for d in range(2)),
        ("sort int64", f"m = lib.randint(0, 1 << 40, ({rows}, {columns}))", "m.sort()"),
        ("topk rows", m, "m.topk(10)"),
        ("topk flat", f"{m}.view(-1)", "m.topk(100)"),
    ]
    if rows * columns <= 1 << 22:  # a flat sort of more takes PyTorch half a minute
        cases.append(("sort flat", f"{m}.view(-1)", "m.sort()"))
    return cases


def moving(rows: int, columns: int) -> list[tuple[str, str, str]]:
    m = f"m = lib.rand({rows}, {columns})"
    return [
        *(
            (f"gather dim {d}", f"{m}; i = lib.randint(0, {n}, m.shape)", f"m.gather({d}, i)")
            for d, n in enumerate((rows, columns))
        ),
        *(
            (
                f"index_select dim {d}",
                f"{m}; i = lib.randint(0, {n}, ({n},))",
                f"m.index_select({d}, i)",
            )
            for d, n in enumerate((rows, columns))
        ),
        ("index_select flat", f"{m}.view(-1); i = lib.randperm(m.numel())", "m.index_select(0, i)"),
        ("transposed copy", m, "m.t().contiguous()"),
        *((f"cat dim {d}", f"{m}; k = m.clone()", f"lib.cat((m, k), {d})") for d in range(2)),
    ]


def cases(size: str) -> list[Case]:
    (rows, columns), cube = SIZES[size]
    n = rows * columns
    found = [
        *pointwise(rows, columns),
        *reductions(rows, columns, cube),
        *ordering(rows, columns),
        *moving(rows, columns),
    ]
    add = f"x = lib.rand({n}); y = lib.rand({n}); z = lib.empty({n})"
    copy = f"s = lib.rand({n * 3 // 2}); d = lib.empty({n * 3 // 2})"
    plain = {"torch": "d.copy_(s)", "numpy": "d[:] = s"}
    return [
        *(Case(name, f"{SEED}; {setup}", statement, BAR) for name, setup, statement in found),
        Case("add : copy", f"{add}; {copy}", "lib.add(x, y, out=z)", COPY_BAR, words=plain),
    ]


def row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e3:.3f} ±{t.spread * 100:.0f}%" for t in times]
    if result.ratio is None:
        return [result.case.name, *shown]
    return [result.case.name, *shown, f"{result.ratio:.2f}", "missed" if result.missed else "ok"]


def measure(size: str, threads: int, args: argparse.Namespace) -> list[Result]:
    prelude = f"lib.set_num_threads({threads})"
    sides = [Side("rushlight", prelude=prelude)]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON, prelude=prelude))
    wanted = [c for c in cases(size) if not args.only or any(o in c.name for o in args.only)]
    print(f"== {size}, {threads} thread(s): ours, PyTorch's, ratio")
    results = []
    rounds = 5 if args.quick else args.rounds
    patience = 2.0 if args.quick else 8.0
    clock = "thread_time" if threads == 1 else "perf_counter"
    options = {"threads": threads, "rounds": rounds, "patience": patience, "clock": clock}
    for result in compare(wanted, sides, **options):
        print(result, flush=True)
        results.append(result)
    return results


def section(size: str, threads: int, results: list[Result]) -> str:
    header = ["op", "rushlight, ms", *(["PyTorch, ms", "ratio", "bar"] if TORCH_PYTHON else [])]
    return f"## {size}, {threads} thread(s)\n\n" + markdown(header, map(row, results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--only", nargs="+", help="cases whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="without 64M, few rounds")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    args = parser.parse_args()

    sizes = [s for s in args.sizes if not (args.quick and s == "64M")]
    sections, everything = [], []
    for size in sizes:
        for threads in args.threads:
            results = measure(size, threads, args)
            sections.append(section(size, threads, results))
            everything += results
    missed = [result for result in everything if result.missed]
    ratios = [r.ratio for r in everything if r.ratio is not None and r.case.bar == BAR]
    mean = geometric_mean(ratios) if ratios else 0.0
    summary = f"Geometric mean {mean:.2f} (bar {MEAN_BAR}); {len(missed)} bars missed."
    print(summary)
    if not args.only:
        write_report("large", "Large tensors against PyTorch", f"{summary}\n", *sections)
    return 1 if args.check and (missed or mean > MEAN_BAR) else 0


if __name__ == "__main__":
    sys.exit(main())
