"""Matrix products against PyTorch: float32 from 4x4 to 2,048, skinny, batched, other types.

    TORCH_PYTHON=path/to/python python benchmarks/bench_matmul.py [--threads 1 2] [--quick]

Without TORCH_PYTHON only our own times are shown. --check fails when a bar of the issue is missed.
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Result, Side, compare, geometric_mean

SQUARES = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048]
SKINNY = [(8, 1024, 1024), (1024, 1024, 8), (1024, 8, 1024), (64, 512, 512), (32, 10, 784)]
BATCHED = [(64, 32, 32, 32), (512, 8, 8, 8), (16, 128, 64, 128), (8, 256, 256, 256)]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="every third size, few rounds")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    args = parser.parse_args()

    missed: list[Result] = []
    for threads in args.threads:
        prelude = f"lib.set_num_threads({threads})"
        sides = [Side("rushlight", prelude=prelude)]
        if TORCH_PYTHON:
            # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
            env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
            sides.append(Side("torch", TORCH_PYTHON, env, prelude))
        print(f"== {threads} thread(s): ours, PyTorch's, ratio")
        ratios = []
        rounds = 5 if args.quick else args.rounds
        for result in compare(cases(args.quick), sides, threads=threads, rounds=rounds):
            print(result, flush=True)
            if result.ratio is not None:
                ratios.append(result.ratio)
            if result.missed:
                missed.append(result)
        if ratios:
            print(f"geometric mean of the ratios: {geometric_mean(ratios):.2f}")
    if missed:
        print("missed:", ", ".join(result.case.name for result in missed))
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
