"""Matrix products against PyTorch: float32 from 4x4 to 2,048, skinny, batched, other types.

    TORCH_PYTHON=path/to/python python benchmarks/bench_matmul.py [--threads 1 2] [--quick]
        [--only bfloat16 float64] [--check]

Bars: at most 1.15 of PyTorch's time for squares of 64 to 2,048 in float32 and bfloat16, a third at
4x4. Without TORCH_PYTHON only our own times are shown. One thread is timed by its own clock, which
a busy machine does not disturb; two by the wall's.
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Result, Side, compare, geometric_mean, markdown, write_report

SQUARES = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048]
SKINNY = [(8, 1024, 1024), (1024, 1024, 8), (1024, 8, 1024), (64, 512, 512), (32, 10, 784)]
BATCHED = [
    (64, 32, 32, 32), (64, 64, 64, 64), (512, 8, 8, 8), (16, 128, 64, 128), (8, 256, 256, 256),
    (8, 512, 64, 512), (8, 512, 512, 64),
]  # fmt: skip


def product(m: int, n: int, k: int, dtype: str = "float32", bar: float | None = None) -> Case:
    setup = f"a = lib.ones({m}, {k}, dtype=lib.{dtype}); b = lib.ones({k}, {n}, dtype=lib.{dtype})"
    return Case(f"{dtype} {m}x{k} @ {k}x{n}", setup, "lib.matmul(a, b)", bar)


def transposed(n: int) -> Case:
    setup = f"a = lib.ones({n}, {n}).t(); b = lib.ones({n}, {n}).t()"
    return Case(f"float32 {n} a.t() @ b.t()", setup, "lib.matmul(a, b)", 1.15)


def batched(batch: int, m: int, n: int, k: int) -> Case:
    setup = f"a = lib.ones({batch}, {m}, {k}); b = lib.ones({batch}, {k}, {n})"
    return Case(f"float32 {batch}x[{m}x{k} @ {k}x{n}]", setup, "lib.bmm(a, b)")


def cases(quick: bool) -> list[Case]:
    squares = SQUARES[::3] if quick else SQUARES
    return [
        product(4, 4, 4, bar=1 / 3),
        Case("float32 4x4 operator", "m = lib.ones(4, 4); n = lib.ones(4, 4)", "m @ n", 1 / 3),
        *(product(n, n, n, bar=1.15) for n in squares),
        transposed(256),
        *(product(*shape) for shape in SKINNY),
        Case("float32 mv 1024", "a = lib.ones(1024, 1024); x = lib.ones(1024)", "lib.mv(a, x)"),
        Case("float32 dot 100000", "x = lib.ones(100_000)", "lib.dot(x, x)"),
        *(batched(*shape) for shape in BATCHED),
        *(product(n, n, n, "bfloat16", 1.15) for n in squares),
        *(product(n, n, n, "float64") for n in (64, 256, 1024)),
        product(256, 256, 256, "complex64"),
        product(128, 128, 128, "int64"),
        product(128, 128, 128, "float16"),
    ]


def row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e6:,.1f} ±{t.spread * 100:.0f}%" for t in times]
    if result.ratio is None:
        return [result.case.name, *shown]
    verdict = "" if result.case.bar is None else "missed" if result.missed else "ok"
    return [result.case.name, *shown, f"{result.ratio:.2f}", verdict]


def measure(threads: int, args: argparse.Namespace) -> list[Result]:
    prelude = f"lib.set_num_threads({threads})"
    sides = [Side("rushlight", prelude=prelude)]
    if TORCH_PYTHON:
        # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
        env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        sides.append(Side("torch", TORCH_PYTHON, env, prelude))
    wanted = [c for c in cases(args.quick) if not args.only or any(o in c.name for o in args.only)]
    print(f"== {threads} thread(s): ours, PyTorch's, ratio")
    rounds = 5 if args.quick else args.rounds
    clock = "thread_time" if threads == 1 else "perf_counter"
    results = []
    for result in compare(wanted, sides, threads=threads, rounds=rounds, clock=clock):
        print(result, flush=True)
        results.append(result)
    return results


def section(threads: int, results: list[Result]) -> str:
    header = [
        "product",
        "rushlight, us",
        *(["PyTorch, us", "ratio", "bar"] if TORCH_PYTHON else []),
    ]
    return f"## {threads} thread(s)\n\n" + markdown(header, map(row, results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", help="cases whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="every third size, few rounds")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    args = parser.parse_args()

    sections, everything = [], []
    for threads in args.threads:
        results = measure(threads, args)
        sections.append(section(threads, results))
        everything += results
    ratios = [r.ratio for r in everything if r.ratio is not None]
    missed = [r.case.name for r in everything if r.missed]
    mean = geometric_mean(ratios) if ratios else 0.0
    summary = f"Geometric mean {mean:.2f}; {len(missed)} bars missed{': ' if missed else '.'}"
    summary += ", ".join(missed)
    print(summary)
    if not args.only and not args.quick:
        write_report("matmul", "Matrix products against PyTorch", f"{summary}\n", *sections)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
