"""compile: chains of pointwise ops and a training step, fused, against eager and torch.compile.

    TORCH_PYTHON=path/to/python python benchmarks/bench_compile.py [--device cuda] [--threads 2]

The chains are eight ops over floats, with two transcendental functions among them ("heavy") or none
("light"); "loss" is four ops and a mean. Figures are times; ratios above one mean that the compiled
function is faster. torch.compile runs in its default mode and in "reduce-overhead", and the faster
one counts. On a GPU, calls are queued ten at a time and waited for together. With `--models`,
training steps of small models on the CPU instead.
"""

import argparse
import sys
import time

import transformers_small
from models_today import MOBILENET
from peer import PARTS, SETTLE, TORCH_PYTHON, Case, Side, Timing, Worker, markdown, write_report

CHAINS = """
import time
device = {device!r}
def light(x, y):
    a = x * 2 + y
    b = (a - x) * y
    return ((b + 1) * a - y).relu()
def heavy(x, y):
    a = x * 2 + y
    b = a.tanh() * y
    return ((b + 1) * a.sigmoid() - y).relu()
def loss(x, y):
    return ((x * 2 + y - x) ** 2).mean()
x, y = (lib.randn({n}, device=device) for _ in range(2))
def queued(f):
    if device == "cpu":
        return f(x, y)
    for _ in range(10):
        f(x, y)
    lib.cuda.synchronize()
if WAY != "eager":
    mode = "reduce-overhead" if WAY == "reduced" else None
    light, heavy, loss = (lib.compile(f, mode=mode) for f in (light, heavy, loss))
for _ in range(3):
    queued(light), queued(heavy), queued(loss)
time.sleep(1)  # kernels are compiled beside the program
"""


MOBILENET_STEP = """
lib.manual_seed(0)
model = MobileNet(10)
images, labels = lib.randn(8, 3, 64, 64), lib.randint(0, 10, (8,))
step = trained(model, lambda run: F.cross_entropy(run(images), labels))
step()
"""
MODELS = transformers_small.MODELS | {"MobileNet": MOBILENET + MOBILENET_STEP}


REDUCED = "WAY = 'reduced'"


def chain_cases(device):
    return [
        Case(f"{kind}, {n:,} floats", CHAINS.format(device=device, n=n), f"queued({kind})")
        for n in (100_000, 16_000_000)
        for kind in ("light", "heavy", "loss")
    ]


def model_cases():
    head = "COMPILED = WAY == 'compiled'\nHALF = False\n" + transformers_small.COMMON
    return [Case(f"{name}, training", head + setup, "step()") for name, setup in MODELS.items()]


def medians(case, sides, threads, rounds):
    """Seconds per statement and side, which take turns, with their spread.

    Of the parts of a turn the best one counts, the one that no other process held up.
    """
    workers = [Worker(side, threads) for side in sides]
    try:
        runs = []
        for worker in workers:
            worker.prepare(case)
            runs.append(max(1, int(0.02 / worker.time(1))))
        found = [[] for _ in sides]
        for _ in range(rounds):
            for worker, count, own in zip(workers, runs, found, strict=True):
                if threads > 1:  # the other sides' threads spin for a while, see peer.py
                    time.sleep(SETTLE)
                    worker.time(1)
                parts = PARTS if count >= PARTS else 1
                own.append(min(worker.time(count // parts) for _ in range(parts)) * parts / count)
        return [Timing(own) for own in found]
    finally:
        for worker in workers:
            worker.close()


def faster_torch(sides, times):
    """The same without the slower way of torch.compile."""
    ways = [side.prelude for side in sides]
    if REDUCED not in ways:
        return sides, times
    one, other = ways.index(REDUCED) - 1, ways.index(REDUCED)
    drop = other if times[one].median <= times[other].median else one
    kept = [i for i in range(len(sides)) if i != drop]
    return [sides[i] for i in kept], [times[i] for i in kept]


def table(cases, sides, threads, rounds, calls):
    """One row per case: times, then how often they hold the time of our compiled function."""
    rows = []
    for case in cases:
        shown, times = faster_torch(sides, medians(case, sides, threads, rounds))
        own = times[0].median
        cells = [f"{t.median / calls * 1e6:,.1f} ±{t.spread:.0%}" for t in times]
        rows.append([case.name, *cells, *(f"{t.median / own:.2f}" for t in times[1:])])
        print(*rows[-1], sep=" | ", flush=True)
    names = [f"{side.module} {side.prelude[7:-1].replace('reduced', 'compiled')}" for side in shown]
    return markdown(["what", *(f"{n}, us" for n in names), *(f"to {n}" for n in names[1:])], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    peers = [("torch", TORCH_PYTHON)] if TORCH_PYTHON else []
    sides = [
        Side(module, python, prelude=f"WAY = {way!r}")
        for module, python in [("rushlight", sys.executable), *peers]
        for way in ("compiled", "reduced", "eager")
        if way != "reduced" or (module == "torch" and not args.models)
    ]
    calls = 1 if args.device == "cpu" else 10
    cases = model_cases() if args.models else chain_cases(args.device)
    cases = [case for case in cases if args.only in case.name]
    parts = ["Ratios above one: our compiled function is faster.\n"]
    for threads in args.threads:
        parts.append(f"{threads} thread{'s' * (threads > 1)}.\n" * (calls == 1))
        parts.append(table(cases, sides, threads, args.rounds, calls))
    if not args.no_report:
        name = "compile" if args.device == "cpu" else "compile_cuda"
        title = "Fused chains of pointwise ops"
        if args.models:
            name, title = "compile_models", "Training steps with compile"
        write_report(name, title, *parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
