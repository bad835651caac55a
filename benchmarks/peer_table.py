"""The main program of a benchmark that is one list of cases against PyTorch."""

import argparse
from collections.abc import Callable

from peer import TORCH_PYTHON, Case, Result, Side, compare, markdown, write_report


def _row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e6:,.1f} ±{t.spread * 100:.0f}%" for t in times]
    if result.ratio is None:
        return [result.case.name, *shown]
    verdict = "" if result.case.bar is None else "missed" if result.missed else "ok"
    return [result.case.name, *shown, f"{result.ratio:.2f}", verdict]


def run(name: str, doc: str, cases: Callable[[bool], list[Case]]) -> int:
    """Measures, prints and writes results/<name>.md; 1 where --check finds a bar missed."""
    title = doc.splitlines()[0]
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--only", nargs="+", help="cases whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--quick", action="store_true", help="those with bars only, few rounds")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    args = parser.parse_args()
    wanted = [c for c in cases(args.quick) if not args.only or any(o in c.name for o in args.only)]
    sections, missed = [], []
    for threads in args.threads:
        prelude = f"lib.set_num_threads({threads})"
        sides = [Side("rushlight", prelude=prelude)]
        if TORCH_PYTHON:
            # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
            env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
            sides.append(Side("torch", TORCH_PYTHON, env, prelude))
        print(f"== {threads} thread(s): ours, PyTorch's, ratio")
        results = []
        rounds = 5 if args.quick else args.rounds
        # One thread is timed by its own clock, which a busy machine does not disturb.
        clock = "thread_time" if threads == 1 else "perf_counter"
        for result in compare(wanted, sides, threads=threads, rounds=rounds, clock=clock):
            print(result, flush=True)
            results.append(result)
        missed += [r.case.name for r in results if r.missed]
        header = [
            "case",
            "rushlight, us",
            *(["PyTorch, us", "ratio", "bar"] if TORCH_PYTHON else []),
        ]
        sections.append(f"## {threads} thread(s)\n\n" + markdown(header, map(_row, results)))
    if not args.quick and not args.only:
        write_report(name, title, "\n\n".join(sections))
    for case in missed:
        print(f"missed: {case}")
    return 1 if args.check and missed else 0
