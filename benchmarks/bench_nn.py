"""Layers and losses at model sizes against PyTorch: forward, and forward with backward.

    TORCH_PYTHON=PYTHON python benchmarks/bench_nn.py [--threads 1 2] [--only pool norm] [--quick]

Bar: at most 1.05 of PyTorch's time. Without TORCH_PYTHON only our own times are shown. The cases
are in nn_cases.py. `--missed` shows only what is slower than the bar.
"""

import argparse
import sys

from nn_cases import cases
from peer import TORCH_PYTHON, Result, Side, compare, geometric_mean, markdown, write_report


def row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e6:,.1f} ±{t.spread * 100:.0f}%" for t in times]
    if result.ratio is None:
        return [result.case.name, *shown]
    return [result.case.name, *shown, f"{result.ratio:.2f}", "missed" if result.missed else "ok"]


def measure(threads, args):
    prelude = f"lib.set_num_threads({threads})"
    sides = [Side("rushlight", prelude=prelude)]
    if TORCH_PYTHON:
        # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
        env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        sides.append(Side("torch", TORCH_PYTHON, env, prelude))
    print(f"== {threads} thread(s): ours, PyTorch's, ratio")
    clock = "thread_time" if threads == 1 else "perf_counter"
    chosen = [c for c in cases() if not args.only or any(word in c.name for word in args.only)]
    rounds = 3 if args.quick else args.rounds
    seconds = 0.01 if args.quick else 0.02
    results = []
    for result in compare(
        chosen, sides, threads=threads, rounds=rounds, seconds=seconds, clock=clock
    ):
        if not args.missed or result.missed:
            print(result, flush=True)
        results.append(result)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="+", help="cases whose names contain one of these")
    parser.add_argument("--missed", action="store_true", help="print only these")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    args = parser.parse_args()
    missed, sections = [], []
    for threads in args.threads:
        results = measure(threads, args)
        missed += [f"{r.case.name} ({threads})" for r in results if r.missed]
        header = ["case", "ours, us"] + (["PyTorch, us", "ratio", ""] if TORCH_PYTHON else [])
        table = markdown(header, [row(r) for r in results])
        ratios = [r.ratio for r in results if r.ratio is not None]
        mean = f"Geometric mean of the ratios: {geometric_mean(ratios):.2f}.\n" if ratios else ""
        sections.append(f"## {threads} thread(s)\n\n{mean}\n{table}")
    summary = f"{len(missed)} bars missed{': ' + ', '.join(missed) if missed else ''}.\n"
    if not args.quick and not args.only:
        write_report("nn", "Layers and losses against PyTorch", summary, *sections)
    if args.check and missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
