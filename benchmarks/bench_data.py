"""Loading data and sending tensors to other processes: against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_data.py [--rounds 9] [--check]

Both sides run the same code (SIDE below) in a process of their own, in turns. Bars: small samples
twice PyTorch's rate, without workers and with two; batches of images 1.2 times; the first batch
of workers after a start in half its time; a tensor of 100 MB through a queue in no more than its
time.
"""

import argparse
import subprocess
import sys

from peer import TORCH_PYTHON, Case, Result, Timing, markdown, write_report

SIDE = """
import gc, importlib, json, os, sys, time

lib = importlib.import_module(sys.argv[1])
data = importlib.import_module(sys.argv[1] + ".utils.data")
mp = importlib.import_module(sys.argv[1] + ".multiprocessing")
lib.set_num_threads(1)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

class Digits(data.Dataset):
    def __init__(self):
        self.images = lib.randint(0, 256, (60_000, 28, 28), dtype=lib.uint8)
        self.labels = lib.randint(0, 10, (60_000,))
    def __len__(self):
        return 60_000
    def __getitem__(self, i):
        return self.images[i].float().div(255), int(self.labels[i])

class Photos(data.Dataset):
    def __init__(self):
        self.images = lib.rand(128, 3, 224, 224)
    def __len__(self):
        return 64 * 16
    def __getitem__(self, i):
        return self.images[i % 128], i % 1000

digits, photos = Digits(), Photos()

def epoch(dataset, workers):
    loader = data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=workers)
    start = time.perf_counter()
    count = 0
    for images, labels in loader:
        count += len(labels)
    assert count == len(dataset)
    return time.perf_counter() - start

def first(workers):
    loader = data.DataLoader(digits, batch_size=64, shuffle=True, num_workers=workers)
    start = time.perf_counter()
    batches = iter(loader)
    next(batches)
    taken = time.perf_counter() - start
    del batches
    return taken

def echo(inbox, outbox):
    while (tensor := inbox.get()) is not None:
        value = tensor[-1].item()
        del tensor
        outbox.put(value)

inbox, outbox = mp.Queue(), mp.Queue()
process = mp.get_context("fork").Process(target=echo, args=(inbox, outbox), daemon=True)
process.start()

def queue():
    tensor = lib.ones(25_000_000)
    start = time.perf_counter()
    inbox.put(tensor)
    assert outbox.get() == 1
    return time.perf_counter() - start

for line in sys.stdin:
    gc.collect()
    answers.write(json.dumps(eval(line)) + "\\n")
    answers.flush()
"""

CASES = [
    Case("60,000 of 28x28, no workers", "", "epoch(digits, 0)", 1 / 2),
    Case("60,000 of 28x28, 2 workers", "", "epoch(digits, 2)", 1 / 2),
    Case("64x3x224x224, 2 workers", "", "epoch(photos, 2)", 1 / 1.2),
    Case("first batch, no workers", "", "first(0)"),  # watched: nearly all of it is randperm
    Case("first batch, 2 workers", "", "first(2)", 1 / 2),
    Case("100 MB through a queue", "", "queue()", 1.0),
]
SAMPLES = {"epoch(digits": 60_000, "epoch(photos": 64 * 16}


class Side:
    def __init__(self, module, python):
        self.module = module
        self._process = subprocess.Popen(
            [python, "-c", SIDE, module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, statement):
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def measure(case, sides, rounds):
    for side in sides:
        side.seconds(case.statement)  # a warm-up
    runs = [[] for _ in sides]
    for _ in range(rounds):
        for side, times in zip(sides, runs, strict=True):
            times.append(side.seconds(case.statement))
    ours, *others = map(Timing, runs)
    return Result(case, ours, dict(zip((s.module for s in sides[1:]), others, strict=True)))


def shown(case, timing):
    spread = f" ±{timing.spread * 100:.0f}%"
    for start, samples in SAMPLES.items():
        if case.statement.startswith(start):
            return f"{samples / timing.median:,.0f} samples/s{spread}"
    return f"{timing.median * 1e3:.1f} ms{spread}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/data.md alone")
    args = parser.parse_args()

    sides = [Side("rushlight", sys.executable)]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON))
    rows, missed = [], False
    for case in CASES:
        result = measure(case, sides, args.rounds)
        print(result, flush=True)
        times = [shown(case, t) for t in (result.ours, *result.peers.values())]
        ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
        verdict = "" if case.bar is None else "missed" if result.missed else "ok"
        bar = "" if case.bar is None else f"{case.bar:.2f}"
        rows.append([case.name, *times, *ratios, bar, verdict])
        missed |= result.missed
    for side in sides:
        side.close()
    if not args.no_report:
        names = [side.module for side in sides]
        header = ["what", *names, *(f"time to {n}'s" for n in names[1:]), "bar", ""]
        write_report("data", "Loading data, and tensors between processes", markdown(header, rows))
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
