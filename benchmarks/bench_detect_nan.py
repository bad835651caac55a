"""What detect_nan adds to a training step that makes no NaN: at most 3% of it.

    python benchmarks/bench_detect_nan.py [--threads 1] [--rounds 400]

Plain and checked steps take turns in random order within one process. Each one's time is the 20th
percentile of its steps, so that other processes count little; the share added is that of a turn's
pairs, as median with half the distance between the quartiles.
"""

import argparse
import itertools
import os
import random
import statistics
import sys
import time

from peer import markdown, write_report

# Features, batch. Small: little work hides the check. Wide: many bytes of gradients.
MODELS = {
    "MLP 64-256-256-8, batch 128": ((64, 256, 256, 8), 128),
    "MLP 784-512-10, batch 64": ((784, 512, 10), 64),
    "MLP 256-1024-1024-10, batch 32": ((256, 1024, 1024, 10), 32),
}


def steps(rl, widths, batch):
    """The plain step and the checked one, of one model."""
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [rl.nn.Linear(inputs, outputs), rl.nn.ReLU()]
    model = rl.nn.Sequential(*layers[:-1])
    optimizer = rl.optim.Adam(model.parameters())
    x, y = rl.randn(batch, widths[0]), rl.randint(0, widths[-1], (batch,))

    def step(x, y):
        optimizer.zero_grad()
        loss = rl.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    checked = rl.autograd.detect_nan(step)
    return {"plain": lambda: step(x, y), "checked": lambda: checked(x, y)}


def timed(ways, rounds):
    found = {name: [] for name in ways}
    for _ in range(rounds):
        order = list(ways)
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            ways[name]()
            found[name].append(time.perf_counter() - start)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import rushlight as rl

    rows = []
    for name, (widths, batch) in MODELS.items():
        ways = steps(rl, widths, batch)
        timed(ways, 20)
        plain, added = [], []
        for _ in range(args.turns):
            found = timed(ways, args.rounds)
            low = {way: statistics.quantiles(times, n=5)[0] for way, times in found.items()}
            plain.append(low["plain"])
            added.append(low["checked"] - low["plain"])
        shares = [a / p for a, p in zip(added, plain, strict=True)]
        first, middle, third = statistics.quantiles(shares, n=4)
        rows.append([name, f"{statistics.median(plain) * 1e6:,.0f}",
                     f"{statistics.median(added) * 1e6:,.1f}",
                     f"{middle:.1%} ±{(third - first) / 2:.1%}"])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    if not args.no_report:
        header = ["step", "plain, us", "added by detect_nan, us", "share"]
        threads = f"{args.threads} thread{'s' * (args.threads > 1)}. Bar: at most 3%.\n"
        write_report("detect_nan", "What detect_nan costs", threads, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
