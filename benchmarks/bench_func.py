"""Transforms of functions: tangent kernels, per-sample gradients, Jacobians, against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_func.py [--threads 1 2] [--quick] [--check]

The empirical neural tangent kernel of a small CNN (20 images of 3 x 32 x 32 against 5, ten outputs;
and a reduced one), by both ways: per-sample Jacobians contracted, and vjp and jvp nested in three
vmaps. Bars: no more time and no more memory than PyTorch. One thread is timed by its own clock.
"""

import argparse
import json
import os
import subprocess
import sys

from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

NETWORK = """
import importlib
nn = lib.nn
func = importlib.import_module(lib.__name__ + ".func")
functional_call, vmap, vjp, jvp = func.functional_call, func.vmap, func.vjp, func.jvp
C, S, TRAIN, TEST = {sizes}

class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, C, 3)
        self.conv2 = nn.Conv2d(C, C, 3)
        self.conv3 = nn.Conv2d(C, C, 3)
        self.fc = nn.Linear(C * (S - 6) ** 2, 10)

    def forward(self, x):
        x = self.conv2(self.conv1(x).relu()).relu()
        return self.fc(self.conv3(x).flatten(1))

lib.manual_seed(0)
net = CNN()
params = {{k: v.detach() for k, v in net.named_parameters()}}
train, test = lib.randn(TRAIN, 3, S, S), lib.randn(TEST, 3, S, S)
targets = lib.randint(0, 10, (TRAIN,))

def single(params, x):
    return functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)

def contracted(equation):
    left, right = ([j.flatten(2) for j in vmap(func.jacrev(single), (None, 0))(params, x).values()]
                   for x in (train, test))
    return sum(lib.einsum(equation, a, b) for a, b in zip(left, right))

def products():
    def kernel(x1, x2):
        y, pull = vjp(lambda p: single(p, x1), params)
        def column(v):
            return jvp(lambda p: single(p, x2), (params,), pull(v))[1]
        return vmap(column)(lib.eye(y.numel()))
    return vmap(vmap(kernel, (None, 0)), (0, None))(test, train)

def loss(params, x, target):
    return nn.functional.cross_entropy(single(params, x), target)

def per_sample():
    return vmap(func.grad(loss), (None, 0, 0))(params, train, targets)
"""
JACOBIAN = """
import importlib
func = importlib.import_module(lib.__name__ + ".func")
lib.manual_seed(0)
OUTS = {outs}
w, w1, w2 = lib.randn(OUTS, 32), lib.randn(256, 32), lib.randn(OUTS, 256)
x = lib.randn(32)
def one(x):
    return (w @ x).tanh()
def two(x):
    return w2 @ (w1 @ x).tanh()
def number(x):
    return two(x).square().sum()
"""
WIDE = JACOBIAN.format(outs=2048)
SIZES = {"tutorial's size": "32, 32, 20, 5", "reduced": "8, 16, 8, 3"}
WAYS = [
    ("kernel, Jacobians, full", "contracted('Naf,Mbf->NMab')"),
    ("kernel, Jacobians, trace", "contracted('Naf,Maf->NM')"),
    ("kernel, Jacobians, diagonal", "contracted('Naf,Maf->NMa')"),
    ("kernel, vjp and jvp", "products()"),
    ("per-sample gradients", "per_sample()"),
]
CASES = [
    *(
        Case(f"{name}, {size}", NETWORK.format(sizes=numbers), call, 1.0)
        for size, numbers in SIZES.items()
        for name, call in WAYS
    ),
    Case("jacrev, one product, 32 to 2,048", WIDE, "func.jacrev(one)(x)", 1.0),
    Case("jacfwd of it", WIDE, "func.jacfwd(one)(x)", 1.0),
    Case("jacrev, two products, 32 to 2,048", WIDE, "func.jacrev(two)(x)", 1.0),
    Case("jacfwd of it", WIDE, "func.jacfwd(two)(x)", 1.0),
    Case("hessian, 32 inputs", WIDE, "func.hessian(number)(x)", 1.0),
]

# The highest resident memory of a second run, above that before the first one.
PEAK = """
import importlib, sys
lib = importlib.import_module(sys.argv[1])
lib.set_num_threads(int(sys.argv[2]))
def line(name):
    with open("/proc/self/status") as f:
        return next(int(l.split()[1]) for l in f if l.startswith(name)) / 1024
lib.ones(512, 512) @ lib.ones(512, 512)  # libraries have buffers of their own
{warm}
{statement}
{setup}
before = line("VmRSS")
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")
for _ in range(2):
    {statement}
print(line("VmHWM") - before)
"""


def peak_memory(case: Case, side: Side, threads: int) -> float:
    """MiB above what the arguments take. What a library loads at first use is there before."""
    of_network = "CNN" in case.setup
    warm = NETWORK.format(sizes="2, 8, 2, 2") if of_network else JACOBIAN.format(outs=16)
    program = PEAK.format(setup=case.setup, warm=warm, statement=case.statement)
    done = subprocess.run(
        [side.python, "-c", program, side.module, str(threads)],
        env=os.environ | side.env | {"OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def rows_of(cases, sides, threads, rounds, check_memory):
    """One row per case, and whether a bar was missed."""
    clock = "thread_time" if threads == 1 else "perf_counter"
    rows, missed = [], False
    for result in compare(cases, sides, threads=threads, rounds=rounds, clock=clock):
        print(result, flush=True)
        times = [result.ours, *result.peers.values()]
        row = [result.case.name]
        row += [f"{t.median * 1e3:.2f} ±{t.spread * 100:.0f}%" for t in times]
        row += [f"{result.ratio_to(m):.2f}" for m in result.peers]
        bad = result.missed
        if check_memory:
            peaks = [peak_memory(result.case, side, threads) for side in sides]
            row += [f"{p:.0f}" for p in peaks]
            bad |= len(peaks) > 1 and peaks[0] > peaks[1] * 1.01 + 4  # our pools grow in pieces
            print(f"{'':<28} peak, MiB: {', '.join(row[-len(peaks) :])}", flush=True)
        rows.append([*row, "missed" if bad else "ok"])
        missed |= bad
    return rows, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="the reduced sizes only")
    parser.add_argument("--only", nargs="+", help="cases whose names hold one of these")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/func.md alone")
    args = parser.parse_args()

    cases = [
        c
        for c in CASES
        if not (args.quick and "tutorial" in c.name)
        and (not args.only or any(o in c.name for o in args.only))
    ]
    parts, missed = [], False
    for threads in args.threads:
        sides = [Side("rushlight", prelude=f"lib.set_num_threads({threads})")]
        if TORCH_PYTHON:
            sides.append(Side("torch", TORCH_PYTHON, prelude=f"lib.set_num_threads({threads})"))
        rows, bad = rows_of(cases, sides, threads, args.rounds, check_memory=threads == 1)
        missed |= bad
        names = [side.module for side in sides]
        header = ["what", *(f"{n}, ms" for n in names), *(f"to {n}" for n in names[1:])]
        if threads == 1:
            header += [f"{n}, MiB" for n in names]
        parts += [f"## {threads} thread{'s' * (threads > 1)}\n", markdown([*header, ""], rows)]
    if not args.no_report:
        note = (
            "MiB: the highest resident memory above that before the call. The bar is 1.00 for time "
            "and for memory.\n"
        )
        write_report("func", "Transforms of functions", note, *parts)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
