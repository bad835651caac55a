"""Optimisers against PyTorch: many parameters in one step, and a whole training step.

    TORCH_PYTHON=path/to/python python benchmarks/bench_optim.py [--threads 1 2] [--quick] [--check]

Bars: Adam over 3,000 parameters of 3,500 elements at most the time of PyTorch's `fused=True`; one
step of an MLP 784-256-10 with Adam and a batch of 64 at most half of PyTorch's. Without
TORCH_PYTHON only our own times are shown.
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Result, Side, compare, markdown, write_report

MANY = """
params = [lib.full(({size},), 0.5).requires_grad_() for _ in range({count})]
for p in params: p.grad = lib.full(({size},), 0.25)
optimizer = lib.optim.{cls}(params{options})
optimizer.step()
"""
MLP = """
import importlib
nn = importlib.import_module(lib.__name__ + ".nn")
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
x = lib.full((64, 784), 0.1); y = lib.arange(64) % 10
optimizer = lib.optim.Adam(model.parameters())
def train():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
train()
"""
FUSED = ", fused=True"


def many(cls, count, size, bar=None, options=""):
    setup = MANY.format(cls=cls, count=count, size=size, options=options)
    name = f"{cls}{' fused' if options else ''}, {count:,} x {size:,}"
    return Case(name, setup, "optimizer.step()", bar)


def cases(quick):
    # `fused` is PyTorch's fastest way; we have one way only, and take the word.
    every = ["SGD", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD"]
    return [
        many("Adam", 3000, 3500, 1.0, FUSED),
        many("AdamW", 3000, 3500, 1.0, FUSED),
        many("Adam", 3000, 3500),
        many("Adam", 4, 16, 0.5, FUSED),
        many("Adam", 1, 1_000_000, 1.15, FUSED),
        *(many(cls, 100, 3500) for cls in ([] if quick else every)),
        Case("MLP 784-256-10, batch 64, Adam: a training step", MLP, "train()", 0.5),
    ]


def row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e6:,.1f} ±{t.spread * 100:.0f}%" for t in times]
    if result.ratio is None:
        return [result.case.name, *shown]
    verdict = "" if result.case.bar is None else "missed" if result.missed else "ok"
    return [result.case.name, *shown, f"{result.ratio:.2f}", verdict]


def measure(threads, args):
    prelude = f"lib.set_num_threads({threads})"
    sides = [Side("rushlight", prelude=prelude)]
    if TORCH_PYTHON:
        # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
        env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        sides.append(Side("torch", TORCH_PYTHON, env, prelude))
    print(f"== {threads} thread(s): ours, PyTorch's, ratio")
    clock = "thread_time" if threads == 1 else "perf_counter"
    rounds = 5 if args.quick else args.rounds
    results = []
    for result in compare(cases(args.quick), sides, threads=threads, rounds=rounds, clock=clock):
        print(result, flush=True)
        results.append(result)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    args = parser.parse_args()
    missed, sections = [], []
    for threads in args.threads:
        results = measure(threads, args)
        missed += [r.case.name for r in results if r.missed]
        header = ["case", "ours, us"] + (["PyTorch, us", "ratio", ""] if TORCH_PYTHON else [])
        table = markdown(header, [row(r) for r in results])
        sections.append(f"## {threads} thread(s)\n\n{table}")
    summary = f"{len(missed)} bars missed{': ' + ', '.join(missed) if missed else ''}.\n"
    if not args.quick:
        write_report("optim", "Optimisers against PyTorch", summary, *sections)
    if args.check and missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
