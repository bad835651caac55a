"""What recording costs: per tiny op, and for a training step; against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_profiler.py [--rounds 15] [--check]

Bar: at most 1 us per tiny op. What a profile that runs costs per op is the time of a loop under it,
less that of an empty profile and of the loop alone. What one that does not run costs is counted in
instructions: callgrind_tiny.py.
"""

import argparse

from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

OPS = 2000
BAR = 1e-6

SETUP = f"""
import importlib
nn = lib.nn
P = importlib.import_module(lib.__name__ + ".profiler")
cpu = [P.ProfilerActivity.CPU]
x = lib.ones(4)
def loop():
    for _ in range({OPS}):
        x + x
def recorded(work, **options):
    with P.profile(activities=cpu, **options):
        work()
def nothing():
    pass
model = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
images, labels = lib.randn(64, 256), lib.zeros(64, dtype=lib.int64)
def step():
    for _ in range(10):
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""

CASES = {
    "empty": Case("an empty profile", SETUP, "recorded(nothing)"),
    "loop": Case(f"{OPS} tiny ops", SETUP, "loop()"),
    "plain": Case(f"{OPS} tiny ops, recorded", SETUP, "recorded(loop)"),
    "shapes": Case("the same with shapes", SETUP, "recorded(loop, record_shapes=True)"),
    "stacks": Case("the same with stacks", SETUP, "recorded(loop, with_stack=True)"),
    "flops": Case("the same with FLOPs", SETUP, "recorded(loop, with_flops=True)"),
    "memory": Case("the same with memory", SETUP, "recorded(loop, profile_memory=True)"),
    "step": Case("10 steps of an MLP", SETUP, "step()"),
    "recorded step": Case("10 steps of an MLP, recorded", SETUP, "recorded(step)"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/profiler.md alone")
    args = parser.parse_args()

    sides = [Side("rushlight", prelude="lib.set_num_threads(1)")]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON, prelude="lib.set_num_threads(1)"))
    names = [side.module for side in sides]
    times: dict[str, dict[str, float]] = {name: {} for name in names}
    results = compare(list(CASES.values()), sides, rounds=args.rounds, clock="thread_time")
    for key, result in zip(CASES, results, strict=True):
        print(result, flush=True)
        for name, timing in zip(names, [result.ours, *result.peers.values()], strict=True):
            times[name][key] = timing.median

    def per_op(name, key):
        t = times[name]
        return (t[key] - t["empty"] - t["loop"]) / OPS

    def share(name):
        t = times[name]
        return (t["recorded step"] - t["empty"]) / t["step"] - 1

    rows = []
    for key in ("plain", "shapes", "stacks", "flops", "memory"):
        costs = [per_op(name, key) for name in names]
        ratio = [f"{costs[0] / cost:.2f}" for cost in costs[1:]]
        rows.append([f"per tiny op, {key}", *(f"{cost * 1e9:.0f} ns" for cost in costs), *ratio])
    empties = [times[name]["empty"] for name in names]
    rows.append(["an empty profile", *(f"{t * 1e6:.0f} us" for t in empties),
                 *(f"{empties[0] / t:.2f}" for t in empties[1:])])  # fmt: skip
    rows.append(["share of an MLP's step", *(f"{share(name) * 100:.1f}%" for name in names),
                 *("" for _ in names[1:])])  # fmt: skip
    table = markdown(["what", *names, *(f"to {n}" for n in names[1:])], rows)
    print(table)
    if not args.no_report:
        write_report("profiler", "What recording costs, one thread", table)
    return 1 if args.check and per_op("rushlight", "plain") > BAR else 0


if __name__ == "__main__":
    raise SystemExit(main())
