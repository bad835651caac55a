"""Ops on four elements, where the call is everything: against NumPy and PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_tiny.py [--rounds 25] [--check]

Bars: at most a third of PyTorch's time each; pointwise ones no slower than NumPy. Times are those
of the thread, so that a busy machine does not disturb them.
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Result, Side, compare, geometric_mean, markdown, write_report

VECTORS = "a = lib.ones((4,), dtype=lib.float32); b = lib.ones((4,), dtype=lib.float32)"
MATRICES = "m = lib.ones((4, 4), dtype=lib.float32); n = lib.ones((4, 4), dtype=lib.float32)"
THIRD = 1 / 3

CASES = [
    Case("a + b", VECTORS, "a + b", THIRD, numpy_bar=1.0),
    Case("a * 2", VECTORS, "a * 2", THIRD, numpy_bar=1.0),
    Case("a.exp()", VECTORS, "a.exp()", THIRD, words={"numpy": "lib.exp(a)"}, numpy_bar=1.0),
    Case("a.sum()", VECTORS, "a.sum()", THIRD),
    Case("m @ n", MATRICES, "m @ n", THIRD),
    Case("a.view(2, 2)", VECTORS, "a.view(2, 2)", THIRD, words={"numpy": "a.reshape(2, 2)"}),
    Case("a[1:3]", VECTORS, "a[1:3]", THIRD),
    Case("m[1]", MATRICES, "m[1]", THIRD),
    Case(
        "cat((a, b))", VECTORS, "lib.cat((a, b))", THIRD, words={"numpy": "lib.concatenate((a, b))"}
    ),
    Case("zeros(4)", "pass", "lib.zeros(4)", THIRD, words={"numpy": "lib.zeros(4, lib.float32)"}),
]


def verdict(result: Result) -> str:
    missed = [name for name in result.peers if result.missed_against(name)]
    return f"missed ({', '.join(missed)})" if missed else "ok"


def row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e9:.0f} ±{t.spread * 100:.0f}%" for t in times]
    ratios = [f"{result.ratio_to(module):.2f}" for module in result.peers]
    return [f"`{result.case.name}`", *shown, *ratios, verdict(result)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/tiny.md alone")
    args = parser.parse_args()

    sides = [Side("rushlight"), Side("numpy")]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON, prelude="lib.set_num_threads(1)"))
    results = []
    for result in compare(CASES, sides, rounds=args.rounds, clock="thread_time"):
        print(result, flush=True)
        results.append(result)
    names = [side.module for side in sides]
    header = ["op", *(f"{n}, ns" for n in names), *(f"to {n}" for n in names[1:]), "bars"]
    means = {
        module: geometric_mean(result.ratio_to(module) for result in results)
        for module in names[1:]
    }
    summary = ", ".join(f"{mean:.2f} of {module}'s time" for module, mean in means.items())
    print(f"geometric mean: {summary}")
    if not args.no_report:
        table = markdown(header, map(row, results))
        write_report("tiny", "Ops on four elements", table, f"Geometric mean: {summary}.\n")
    return 1 if args.check and any(result.missed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
