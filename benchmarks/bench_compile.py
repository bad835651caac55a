"""compile: chains of pointwise ops and a training step, fused, against eager and torch.compile.

    TORCH_PYTHON=path/to/python python benchmarks/bench_compile.py [--device cuda] [--threads 2]

The chains are eight ops over floats, with two transcendental functions among them ("heavy") or none
("light"). Figures are times; ratios above one mean that the compiled function is faster. On a GPU,
calls are queued ten at a time and waited for together. With `--models`, training steps of small
models on the CPU instead.
"""

import argparse
import statistics
import sys
import time

import transformers_small
from models_today import MOBILENET
from peer import SETTLE, TORCH_PYTHON, Case, Side, Worker, markdown, write_report

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
x, y = (lib.randn({n}, device=device) for _ in range(2))
def queued(f):
    if device == "cpu":
        return f(x, y)
    for _ in range(10):
        f(x, y)
    lib.cuda.synchronize()
run = {{"eager": lambda f: f, "compiled": lib.compile}}[WAY]
light, heavy = run(light), run(heavy)
for _ in range(3):
    queued(light), queued(heavy)
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


def chain_cases(device):
    return [
        Case(f"{kind}, {n:,} floats", CHAINS.format(device=device, n=n), f"queued({kind})")
        for n in (100_000, 16_000_000)
        for kind in ("light", "heavy")
    ]


def model_cases():
    head = "COMPILED = WAY == 'compiled'\nHALF = False\n" + transformers_small.COMMON
    return [Case(f"{name}, training", head + setup, "step()") for name, setup in MODELS.items()]


def medians(case, sides, threads, rounds):
    """Seconds per statement and side, which take turns."""
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
                own.append(worker.time(count) / count)
        return [statistics.median(own) for own in found]
    finally:
        for worker in workers:
            worker.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    peers = [("torch", TORCH_PYTHON)] if TORCH_PYTHON else []
    sides = [
        Side(module, python, prelude=f"WAY = {way!r}")
        for module, python in [("rushlight", sys.executable), *peers]
        for way in ("compiled", "eager")
    ]
    calls = 1 if args.device == "cpu" else 10
    cases = model_cases() if args.models else chain_cases(args.device)
    rows = []
    for case in cases:
        if args.only not in case.name:
            continue
        times = [t / calls for t in medians(case, sides, args.threads, args.rounds)]
        cells = [f"{t * 1e6:,.0f}" for t in times]
        rows.append([case.name, *cells, *(f"{t / times[0]:.2f}" for t in times[1:])])
        print(*rows[-1], sep=" | ", flush=True)
    if not args.no_report:
        names = [f"{side.module} {side.prelude[7:-1]}" for side in sides]
        header = ["what", *(f"{name}, us" for name in names), *(f"to {n}" for n in names[1:])]
        name = "compile" if args.device == "cpu" else "compile_cuda"
        title = "Fused chains of pointwise ops"
        if args.models:
            name, title = "compile_models", "Training steps with compile"
        write_report(
            name, title, f"{args.threads} threads.\n" * (calls == 1),
            "Ratios above one: our compiled function is faster.\n", markdown(header, rows),
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
