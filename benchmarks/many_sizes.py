"""Resident memory of a convolutional network that trains on 2,000 distinct image sizes.

    python benchmarks/many_sizes.py [--sizes 2000] [--peer PYTHON] [--report]

Bar: it grows by less than 200 MB after the first steps. What oneDNN compiled for a shape is kept in
a cache that is bounded in bytes (config.primitive_cache_limit).
"""

import argparse
import json
import os
import subprocess
import sys
import time

from peer import TORCH_PYTHON, markdown, write_report

PEER_ENV = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
BAR = 200e6


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def train(module, sizes, threads):
    """Prints the growth in bytes, and the seconds, as JSON."""
    import importlib

    sys.path.pop(0)  # this folder: nothing in it may hide a library
    torch = importlib.import_module(module)
    nn = importlib.import_module(f"{module}.nn")
    torch.set_num_threads(threads)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(height, width):
        optimizer.zero_grad()
        out = model(torch.ones(2, 3, height, width))
        nn.functional.cross_entropy(out, torch.tensor([0, 1])).backward()
        optimizer.step()

    for _ in range(5):
        step(80, 80)
    before, start, most = resident(), time.perf_counter(), 0
    for i in range(sizes):
        step(24 + i % 50, 24 + i // 50)
        most = max(most, resident() - before)
    found = {"growth": most, "seconds": time.perf_counter() - start}
    if module == "rushlight":
        found["cache"] = torch.config.primitive_cache_stats()
    print(json.dumps(found))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peer", default=TORCH_PYTHON, help="a Python that has PyTorch")
    parser.add_argument("--report", action="store_true", help="write results/many_sizes.md")
    parser.add_argument("--check", action="store_true", help="fail when the bar is missed")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        return train(args.side, args.sizes, args.threads)
    sides = {"rushlight": (sys.executable, {})} | (
        {"torch": (args.peer, PEER_ENV)} if args.peer else {}
    )
    rows, found = [], {}
    for side, (python, env) in sides.items():
        command = [python, __file__, "--side", side, "--sizes", str(args.sizes),
                   "--threads", str(args.threads)]  # fmt: skip
        out = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | env
        )
        found[side] = json.loads(out.stdout.splitlines()[-1])
        print(side, found[side], flush=True)
        rows.append([{"torch": "PyTorch"}.get(side, side), f"{found[side]['growth'] / 1e6:,.0f} MB",
                     f"{found[side]['seconds']:,.0f} s"])  # fmt: skip
    if args.report:
        how = (f"A network with three convolutions trains one step on each of {args.sizes} sizes, "
               f"{args.threads} thread(s). `python benchmarks/many_sizes.py --peer PYTHON "
               f"--threads {args.threads} --report`. Bar: 200 MB.\n")  # fmt: skip
        write_report("many_sizes", "Memory over many image sizes", how,
                     markdown(["library", "growth", "time"], rows))  # fmt: skip
    if args.check and found["rushlight"]["growth"] >= BAR:
        sys.exit(f"resident memory grew by {found['rushlight']['growth'] / 1e6:.0f} MB")
    return found


if __name__ == "__main__":
    main()
