"""What a module's call costs on top of its operation: against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_module.py [--rounds 25] [--check]

Bar: Linear(4, 4)(x) at most 1/3 of PyTorch's time. The others are there to be watched.
"""

import argparse

from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

SETUP = """
nn = lib.nn
x = lib.ones(4, 4)
linear, identity = nn.Linear(4, 4), nn.Identity()
class User(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(x)
user = User()
chain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
"""

CASES = [
    Case("Linear(4, 4)(x)", SETUP, "linear(x)", 1 / 3),
    Case("Identity()(x)", SETUP, "identity(x)", 1.0),
    Case("a module that calls its child", SETUP, "user(x)", 1 / 2),
    Case("Sequential of three", SETUP, "chain(x)", 1 / 2),
    Case("linear.weight", SETUP, "linear.weight", 1.2),
    Case("Linear(4, 4)", SETUP, "nn.Linear(4, 4)", 1.0),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/module.md alone")
    args = parser.parse_args()

    sides = [Side("rushlight")]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON, prelude="lib.set_num_threads(1)"))
    rows, missed = [], False
    for result in compare(CASES, sides, rounds=args.rounds, clock="thread_time"):
        print(result, flush=True)
        times = [result.ours, *result.peers.values()]
        shown = [f"{t.median * 1e9:.0f} ±{t.spread * 100:.0f}%" for t in times]
        ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
        verdict = "missed" if result.missed else "ok"
        rows.append([result.case.name, *shown, *ratios, f"{result.case.bar:.2f}", verdict])
        missed |= result.missed
    if not args.no_report:
        names = [side.module for side in sides]
        header = ["what", *(f"{n}, ns" for n in names), *(f"to {n}" for n in names[1:])]
        write_report("module", "Calls of modules, one thread", markdown([*header, "bar", ""], rows))
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
