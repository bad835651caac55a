"""A small network that trains beside other programs: do its threads still help it?

    python benchmarks/busy_machine.py [--loads 0 1 2 8] [--rounds 5] [--seconds 3] [--report]

A load is a number of other programs that use all the time they get. Each round trains a network of
the size of examples/digits.py on one thread and on all, in processes of their own, in turns.
Bar: under each load, all threads make at least 0.9 of the steps of the better of the two.
"""

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import time

from peer import TORCH_PYTHON, markdown, write_report

BAR = 0.9
PEER_ENV = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def train(module, threads, seconds):
    """Prints the steps per second."""
    sys.path.pop(0)  # this folder: nothing in it may hide a library
    torch = importlib.import_module(module)
    nn = importlib.import_module(f"{module}.nn")
    torch.set_num_threads(threads)
    torch.manual_seed(0)

    def block(inputs, outputs):
        conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return conv, nn.BatchNorm2d(outputs), nn.ReLU()

    model = nn.Sequential(
        *block(1, 32), *block(32, 64), nn.MaxPool2d(2), *block(64, 64), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = torch.rand(64, 1, 8, 8), torch.randint(10, (64,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    for _ in range(5):
        step()
    steps, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        step()
        steps += 1
    print(steps / passed)


def measure(module, python, threads, seconds):
    env = os.environ | (PEER_ENV if module == "torch" else {})
    command = [python, __file__, "--train", module, str(threads), str(seconds)]
    return float(subprocess.run(command, env=env, check=True, capture_output=True).stdout)


def under_load(load, sides, rounds, seconds):
    """Steps per second of each (module, python, threads), a list per side."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
    try:
        found = {side: [] for side in sides}
        for _ in range(rounds):
            for side in sides:
                found[side].append(measure(*side, seconds))
        return found
    finally:
        for other in others:
            other.kill()
            other.wait()


def shown(runs):
    middle = statistics.median(runs)
    return f"{middle:.0f} ({min(runs):.0f} to {max(runs):.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 1, 2, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--peer", default=TORCH_PYTHON, help="a Python that has PyTorch")
    parser.add_argument("--report", action="store_true", help="write results/busy_machine.md")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    parser.add_argument("--train", nargs=3, metavar=("MODULE", "THREADS", "SECONDS"))
    args = parser.parse_args()
    if args.train:
        module, threads, seconds = args.train
        return train(module, int(threads), float(seconds))

    count = len(os.sched_getaffinity(0))
    libraries = [("rushlight", sys.executable)] + ([("torch", args.peer)] if args.peer else [])
    sides = [(*library, threads) for library in libraries for threads in (1, count)]
    rows, missed = [], 0
    for load in args.loads:
        found = under_load(load, sides, args.rounds, args.seconds)
        for module, python in libraries:
            one, all_ = found[module, python, 1], found[module, python, count]
            ratio = statistics.median(all_) / max(map(statistics.median, (one, all_)))
            verdict = ("ok" if ratio >= BAR else "MISSED") if module == "rushlight" else ""
            missed += verdict == "MISSED"
            rows.append([str(load), module, shown(one), shown(all_), f"{ratio:.2f}", verdict])
            print(*rows[-1], sep="  ", flush=True)
    titles = [
        "other programs",
        "library",
        "steps/s, one thread",
        f"{count} threads",
        "to the better",
        "bar 0.9",
    ]
    if args.report:
        write_report(
            "busy_machine", "A small network beside other programs", markdown(titles, rows)
        )
    return missed if args.check else 0


if __name__ == "__main__":
    sys.exit(main())
