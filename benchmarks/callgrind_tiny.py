"""Counts the instructions of tiny ops and a recorded chain with callgrind, against a baseline.

    python benchmarks/callgrind_tiny.py            compare, print what changed by more than 2%
    python benchmarks/callgrind_tiny.py --write    make the counts the new baseline
    python benchmarks/callgrind_tiny.py --profile "a + b"    where one op's instructions go

Instructions are repeatable where times are not: a longer call path is seen in review. One process
runs every op in two loops of different lengths; the difference leaves only the op and the loop
around it, of which an empty statement tells the cost. Counts depend on compiler and Python: the
baseline says which ones it is from.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_autograd import CASES as RECORDED
from bench_tiny import CASES as PLAIN

CASES = [*PLAIN, *RECORDED[:2]]  # the small ones: the chain and one recorded product

BASELINE = Path(__file__).parent / "callgrind_baseline.json"
SHORT, LONG = 100, 600
CHANGE = 0.02
# getpgrp does nothing else and nobody else calls it: callgrind writes its counts out before each.
MARK = "getpgrp"

RUNNER = """
import gc, os, sys
sys.path.pop(0)
import rushlight as lib
gc.disable()  # a collection in the midst of a loop would count as the op's
def loop(setup, statement, counts):
    scope = {"lib": lib, "os": os}
    lines = ["def run(times):", "  for _ in range(times):", f"    {statement}"]
    exec(setup, scope)
    exec("\\n".join(lines), scope)
    # Names of the setup as globals, as a user's script has them.
    run = scope["run"]
    run(64)
    for n in counts:
        os.getpgrp()
        run(n)
    os.getpgrp()
"""


def count(cases: list[tuple[str, str]], lengths: tuple[int, ...], keep: Path | None = None):
    """Instructions of each loop, one list per case."""
    program = RUNNER + "".join(f"loop({s!r}, {t!r}, {lengths!r})\n" for s, t in cases)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(keep or folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        command += [f"--dump-before={MARK}", sys.executable, "-c", program]
        env = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"callgrind failed:\n{done.stderr[-2000:]}")
        # The first part of a case is its setup (before the first: the start); then one per loop.
        parts = len(lengths) + 1
        return [
            [_total(Path(f"{out}.{case * parts + loop + 2}")) for loop in range(len(lengths))]
            for case in range(len(cases))
        ]


def _total(part: Path) -> int:
    return int(re.search(r"^(?:totals|summary): (\d+)", part.read_text(), re.MULTILINE)[1])


def measure() -> dict[str, float]:
    cases = [("pass", "pass"), *((case.setup, case.statement) for case in CASES)]
    per_run = [(long - short) / (LONG - SHORT) for short, long in count(cases, (SHORT, LONG))]
    return {c.name: round(n - per_run[0], 1) for c, n in zip(CASES, per_run[1:], strict=True)}


def profile(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    with tempfile.TemporaryDirectory() as folder:
        count([(case.setup, case.statement)], (LONG,), Path(folder))
        command = ["callgrind_annotate", "--inclusive=yes", f"{folder}/callgrind.out.2"]
        text = subprocess.run(command, capture_output=True, text=True).stdout
    print("\n".join(line[:160] for line in text.splitlines()[:70]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the baseline")
    parser.add_argument("--check", action="store_true", help="exit with 1 when an op got longer")
    parser.add_argument("--profile", metavar="OP", help="an inclusive profile of one op")
    args = parser.parse_args()
    if args.profile:
        profile(args.profile)
        return 0

    made_with = f"Python {platform.python_version()}, {platform.machine()}"
    counts = measure()
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"instructions": {}}
    known = baseline["instructions"]
    if known and baseline["made_with"] != made_with:
        print(f"the baseline is from {baseline['made_with']}, this is {made_with}")
    longer = False
    for name, now in counts.items():
        before = known.get(name)
        text = f"{name:<14} {now:8.0f}"
        if before and abs(now / before - 1) > CHANGE:
            text += f"   was {before:.0f}: {100 * (now / before - 1):+.1f}%"
            longer |= now > before
        print(text)
    if args.write:
        document = {"made_with": made_with, "instructions": counts}
        BASELINE.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if args.check and longer else 0


if __name__ == "__main__":
    sys.exit(main())
