"""What recording costs: per tiny op, and for a training step; against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_profiler.py [--rounds 5] [--check]

Bar: at most 1 us per tiny op. A cost is a difference of two times, so each process takes them in
turns, recorded and not, and keeps the median of the differences; processes take turns as well. What
a profile that does not run costs is counted in instructions: callgrind_tiny.py.
"""

import argparse
import json
import statistics
import subprocess

from peer import TORCH_PYTHON, Side, markdown, write_report

OPS, TURNS = 2000, 9
BAR = 1e-6

OPTIONS = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "stacks": {"with_stack": True},
    "FLOPs": {"with_flops": True},
    "memory": {"profile_memory": True},
}

PROGRAM = f"""
import contextlib, importlib, json, statistics, sys, time
lib = importlib.import_module(sys.argv[1])
P = importlib.import_module(sys.argv[1] + ".profiler")
lib.set_num_threads(1)
nn = lib.nn
x = lib.ones(4)
def loop():
    for _ in range({OPS}):
        x + x
model = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
images, labels = lib.randn(64, 256), lib.zeros(64, dtype=lib.int64)
def steps():
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
def inside(work):
    start = time.thread_time()
    work()
    return time.thread_time() - start
def recorded(work, options):
    with P.profile(activities=[P.ProfilerActivity.CPU], **options):
        return inside(work)
def empty():
    with P.profile(activities=[P.ProfilerActivity.CPU]):
        pass
def turns(work, options):
    recorded(work, options)
    return [(inside(work), recorded(work, options)) for _ in range({TURNS})]
found = {{}}
for name, options in {OPTIONS!r}.items():
    found[name] = statistics.median((on - off) / {OPS} for off, on in turns(loop, options))
found["empty"] = statistics.median(inside(empty) for _ in range({TURNS}))
pairs = turns(steps, {{}})  # the difference is small beside the noise of a step: the best of each
found["step"] = min(on for _, on in pairs) / min(off for off, _ in pairs) - 1
print(json.dumps(found))
"""


def measure(side: Side) -> dict[str, float]:
    command = [side.python, "-c", PROGRAM, side.module]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/profiler.md alone")
    args = parser.parse_args()

    sides = [Side("rushlight")]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON))
    rounds = [[measure(side) for side in sides] for _ in range(args.rounds)]

    def medians(key):
        return [statistics.median(r[i][key] for r in rounds) for i in range(len(sides))]

    rows = []
    for key in OPTIONS:
        costs = medians(key)
        ratios = [f"{costs[0] / cost:.2f}" for cost in costs[1:]]
        rows.append([f"per tiny op, {key}", *(f"{c * 1e9:.0f} ns" for c in costs), *ratios])
    costs = medians("empty")
    ratios = [f"{costs[0] / cost:.2f}" for cost in costs[1:]]
    rows.append(["a profile of nothing", *(f"{c * 1e6:.0f} us" for c in costs), *ratios])
    shares = [f"{share * 100:.1f}%" for share in medians("step")]
    rows.append(["on top of an MLP's training step", *shares, *("" for _ in sides[1:])])
    names = [side.module for side in sides]
    table = markdown(["what", *names, *(f"to {n}" for n in names[1:])], rows)
    print(table)
    if not args.no_report:
        write_report("profiler", "What recording costs, one thread", table)
    return 1 if args.check and medians("plain")[0] > BAR else 0


if __name__ == "__main__":
    raise SystemExit(main())
