"""all_reduce between two processes of this machine, against PyTorch's gloo.

    TORCH_PYTHON=path/to/python python benchmarks/bench_distributed.py [--rounds 5] [--threads 1]

Each round starts two ranks of one library, then two of the other, with equal threads. A rank waits
at a barrier, then times one all_reduce, many times; a round's figure is rank 0's median. Bars: a
third of gloo's time from 1 KiB to 1 MiB, no slower above.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peer import TORCH_PYTHON, markdown, write_report

SIZES = [1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20]
NAMES = ["1 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB", "25 MiB"]
BARS = [1 / 3] * 5 + [1.0] * 2

RANK = """
import importlib, json, statistics, sys, time
name, method, rank, sizes, threads = sys.argv[1:]
rank, sizes = int(rank), json.loads(sizes)
lib = importlib.import_module(name)
dist = importlib.import_module(name + ".distributed")
lib.set_num_threads(int(threads))
dist.init_process_group("gloo", init_method=method, rank=rank, world_size=2)
medians = []
for size in sizes:
    x = lib.ones(size // 4)
    times = []
    for turn in range(12 if size > 2 ** 20 else 60):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        times.append(time.perf_counter() - start)
    medians.append(statistics.median(times[2:]))
if rank == 0:
    print(json.dumps(medians))
dist.destroy_process_group()
"""


def measure(python: str, library: str, threads: str) -> list[float]:
    """Seconds per size, of one round."""
    with tempfile.TemporaryDirectory() as folder:
        method = f"file://{folder}/store"
        ranks = [
            subprocess.Popen(
                [python, "-c", RANK, library, method, str(rank), json.dumps(SIZES), threads],
                stdout=subprocess.PIPE,
                env=os.environ | {"OMP_NUM_THREADS": threads},
                text=True,
            )
            for rank in range(2)
        ]
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise RuntimeError(f"{library}: a rank failed")
    return json.loads(outputs[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--json", help="a file for the medians of all rounds, in seconds")
    parser.add_argument("--no-report", action="store_true", help="leave the results alone")
    args = parser.parse_args()
    sides = {"rushlight": sys.executable}
    if TORCH_PYTHON:
        sides["torch"] = TORCH_PYTHON
    found: dict[str, list[list[float]]] = {name: [] for name in sides}
    for turn in range(args.rounds):
        for name, python in sides.items():
            found[name].append(measure(python, name, str(args.threads)))
        print(f"round {turn + 1} of {args.rounds}", flush=True)
        if args.json:  # after each round, should the rest be cut off
            Path(args.json).write_text(json.dumps({"sizes": SIZES, "rounds": found}))

    rows, missed = [], []
    for i, (size, bar) in enumerate(zip(NAMES, BARS, strict=True)):
        times = {name: [r[i] for r in rounds] for name, rounds in found.items()}
        middle = {name: statistics.median(t) for name, t in times.items()}
        cells = [
            f"{middle[name] * 1e3:.3f} ({min(t) * 1e3:.3f} to {max(t) * 1e3:.3f})"
            for name, t in times.items()
        ]
        if "torch" in middle:
            ratio = middle["rushlight"] / middle["torch"]
            missed += [size] if ratio > bar else []
            cells += [f"{ratio:.2f}", f"{bar:.2f}", "missed" if ratio > bar else "ok"]
        rows.append([size, *cells])
        print(*rows[-1], sep="  ", flush=True)
    header = ["tensor", *(f"{name} (ms)" for name in sides)]
    header += ["ratio", "bar", ""] if "torch" in sides else []
    if not args.no_report:
        load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
        note = (
            f"Two ranks, threads of each: {args.threads}. {args.rounds} rounds in turn; medians, "
            f"and the fastest and slowest round. Load of the machine at the end: {load} on "
            f"{os.cpu_count()} cores.\n"
        )
        write_report("distributed", "all_reduce of two processes", note, markdown(header, rows))
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
