"""What it costs to remember the user's line: a loop of small recorded ops with and without it.

Both ways run in one process, alternated, so that noise hits both. Bar: under 5 percent.

    python benchmarks/bench_source_lines.py
"""

import statistics
import time

import rushlight as torch


def chain(x, n):
    y = x
    for _ in range(n):
        y = y * x
    return y


def write(y, n):
    for _ in range(n):
        y.mul_(1.0)


def once(work, *args):
    start = time.perf_counter_ns()
    work(*args)
    return time.perf_counter_ns() - start


def compare(name, work, *args, rounds=400):
    times = {"fast": [], "off": []}
    for i in range(rounds):
        for way in ("fast", "off") if i % 2 else ("off", "fast"):
            torch._C._set_source_lines(way)
            once(work, *args)  # warm
            times[way].append(once(work, *args))
    torch._C._set_source_lines("fast")
    with_, without = (statistics.median(times[w]) / args[-1] for w in ("fast", "off"))
    low = min(times["fast"]) / min(times["off"])
    print(
        f"{name:28} {without:7.1f} ns per op, with lines {with_:7.1f} ns:"
        f" {(with_ / without - 1) * 100:+.1f}% (of the fastest runs {(low - 1) * 100:+.1f}%)"
    )


if __name__ == "__main__":
    x = torch.ones(4, requires_grad=True)
    compare("x * y, recorded", chain, x, 200)
    compare("y.mul_(1.0), not recorded", write, torch.ones(4), 200)
