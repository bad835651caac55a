"""Recording and backward, where autograd is everything and where memory is: against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_autograd.py [--rounds 25] [--check]

Bars: a chain of 50 products of four elements, forward and backward, at most 1/5 of PyTorch's time;
one recorded product at most 1/3; a step of a small MLP from plain ops at most 1/2; backward of a
chain over 4M elements at most 0.9 of the time, with no higher peak of memory. Times are those of
the thread, so that a busy machine does not disturb them.
"""

import argparse
import json
import os
import subprocess
import sys

from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

CHAIN = """
x = lib.ones(4, requires_grad=True)
w = lib.ones(4)
def chain():
    y = x
    for _ in range(50):
        y = y * w
    y.sum().backward()
"""
PRODUCT = "x = lib.ones(4, requires_grad=True); g = lib.ones(4)"
MLP = """
lib.manual_seed(0)
x, target = lib.randn(64, 784), lib.randint(0, 10, (64,))
rows = lib.arange(64)
w1 = (lib.randn(784, 128) / 28).requires_grad_()
b1 = lib.zeros(128, requires_grad=True)
w2 = (lib.randn(128, 10) / 11).requires_grad_()
b2 = lib.zeros(10, requires_grad=True)
parameters = [w1, b1, w2, b2]
def step():
    h = (x @ w1 + b1).relu()
    out = h @ w2 + b2
    loss = (out.logsumexp(1) - out[rows, target]).mean()
    for p in parameters:
        p.grad = None
    loss.backward()
"""
LARGE = """
x = lib.randn(4 << 20, requires_grad=True)
w = lib.randn(4 << 20)
def both():
    x.grad = None
    (x * w).exp().sum().backward()
"""
LARGE_BACK = """
y = (x * w).exp().sum()
def back():
    x.grad = None
    y.backward(retain_graph=True)
"""

CASES = [
    Case("chain of 50 products, 4 elements", CHAIN, "chain()", 1 / 5),
    Case("g * x", PRODUCT, "g * x", 1 / 3),
    Case("MLP 784-128-10, batch 64", MLP, "step()", 1 / 2),
    Case("backward of (x * w).exp().sum(), 4M", LARGE + LARGE_BACK, "back()", 0.9),
    Case("forward and backward of it", LARGE, "both()", 0.9),
]

# The highest resident memory above that before the step, as the system saw it.
PEAK = """
import importlib, json, sys
lib = importlib.import_module(sys.argv[1])
lib.set_num_threads(1)
def line(name):
    with open("/proc/self/status") as f:
        return next(int(l.split()[1]) for l in f if l.startswith(name)) / 1024
{setup}
small = lib.ones(16, requires_grad=True)
(small * small).exp().sum().backward()
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")
before = line("VmRSS")
both()
peak = {{"rss": line("VmHWM") - before}}
if hasattr(lib, "memory_stats"):
    x.grad = None
    lib.reset_peak_memory_stats()
    held = lib.memory_stats()["allocated"]
    both()
    peak["tensors"] = (lib.memory_stats()["peak"] - held) / 2**20
print(json.dumps(peak))
"""


def peak_memory(side: Side) -> dict[str, float]:
    """MiB above what the arguments take."""
    program = PEAK.format(setup=LARGE)
    done = subprocess.run(
        [side.python, "-c", program, side.module],
        env=os.environ | side.env | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/autograd.md alone")
    args = parser.parse_args()

    sides = [Side("rushlight")]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON, prelude="lib.set_num_threads(1)"))
    rows, missed = [], False
    for result in compare(CASES, sides, rounds=args.rounds, clock="thread_time"):
        print(result, flush=True)
        times = [result.ours, *result.peers.values()]
        shown = [f"{t.median * 1e6:.2f} ±{t.spread * 100:.0f}%" for t in times]
        ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
        verdict = "missed" if result.missed else "ok"
        rows.append([result.case.name, *shown, *ratios, f"{result.case.bar:.2f}", verdict])
        missed |= result.missed
    peaks = {side.module: peak_memory(side) for side in sides}
    text = ", ".join(f"{name} {peak['rss']:.0f} MiB" for name, peak in peaks.items())
    text += f" (our tensors alone: {peaks['rushlight']['tensors']:.0f} MiB)"
    print(f"peak above the arguments: {text}")
    if "torch" in peaks:
        missed |= peaks["rushlight"]["rss"] > peaks["torch"]["rss"] * 1.02  # pages, not bytes
    if not args.no_report:
        names = [side.module for side in sides]
        header = ["what", *(f"{n}, us" for n in names), *(f"to {n}" for n in names[1:])]
        table = markdown([*header, "bar", ""], rows)
        note = f"Highest resident memory of one forward and backward over 4M elements: {text}.\n"
        write_report("autograd", "Recording and backward, one thread", table, note)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
