"""Compares Rushlight with PyTorch on calls by the thousand.

    TORCH_PYTHON=path python tools/conformance.py [--calls 300] [--first 0] [--strides] [op ...]

The calls are made of the op rows of the tests (tests/conformance/calls.py): other dtypes, sizes,
layouts, numbers, flags, special values and forms; `--first` takes others. Each library runs them
in a process of its own; results, dtypes, gradients and refusals are compared here, and strides
where that is asked for. What differs on purpose stands in tests/conformance/better.py, with the
reason. Exits with 1 where anything else differs.
"""

import argparse
import collections
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from conformance.better import is_better  # noqa: E402
from conformance.compare import difference  # noqa: E402


def outcomes(python, flag, options, path):
    """Starts a library on the calls."""
    script = ROOT / "tests" / "conformance" / "outcomes.py"
    numbers = [str(options.first), str(options.calls)]
    command = [python, str(script), flag, path, *numbers, *options.ops]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=env)


def read(path):
    """What a library wrote, by op: its outcomes, or the status with which its process ended."""
    found = {}
    with open(path, "rb") as file:
        while True:
            try:
                name, values, calls = pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return found
            found[name] = values, calls


def judged(name, mine, peers):
    """The differences of an op, by kind: how many, and a first example."""
    values, calls = mine
    kinds = collections.OrderedDict()
    for (text, ours, _), (_, theirs, exact) in zip(calls, peers[1], strict=True):
        found = difference(ours, theirs, exact, values)
        if found is None or is_better(name, found, text):
            continue
        kind = found.split(":")[0]
        count, example = kinds.get(kind, (0, f"{found}\n      {text}"))
        kinds[kind] = count + 1, example
    return kinds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=300, help="per op")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--classes", action="store_true", help="compare classes of errors, too")
    parser.add_argument("--strides", action="store_true", help="compare strides, too")
    parser.add_argument("ops", nargs="*")
    options = parser.parse_args()
    peer = os.environ.get("TORCH_PYTHON")
    if not peer:
        sys.exit("TORCH_PYTHON must name a Python with PyTorch and SciPy")
    lines, total, bad = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("ours", "theirs")]
        sides = zip((sys.executable, peer), ("--self", "--peer"), paths, strict=True)
        running = [outcomes(who, flag, options, to) for who, flag, to in sides]
        codes = [process.wait() for process in running]  # of both, also when the first has failed
        if any(codes):
            sys.exit("a library could not run the calls: see above")
        ours, theirs = map(read, paths)
    for name in ours:
        if isinstance(ours[name][1], int):
            lines.append(f"{name}: Rushlight ended with status {ours[name][1]}")
            bad += 1
            continue
        if isinstance(theirs[name][1], int):
            lines.append(f"{name}: PyTorch ended with status {theirs[name][1]}")
            continue
        total += len(ours[name][1])
        kinds = judged(name, ours[name], theirs[name])
        if not options.classes:
            kinds.pop("other class", None)
        if not options.strides:
            kinds.pop("strides", None)
        bad += bool(kinds)
        lines += [f"{name}: {n} of {options.calls} {example}" for n, example in kinds.values()]
    lines.append(f"{total} calls of {len(ours)} ops, {bad} ops differ")
    text = "\n".join(lines)
    print(text)
    if options.report:
        options.report.write_text(text + "\n")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
