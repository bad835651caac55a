"""Compares Rushlight with PyTorch on calls by the thousand.

    TORCH_PYTHON=path python tools/conformance.py [--calls 300] [--report file] [op ...]

The calls are made of the op rows of the tests (tests/conformance/calls.py): other dtypes, sizes,
layouts, numbers, flags, special values and forms. Each library runs them in a process of its own;
results, dtypes, gradients and refusals are compared here. What differs on purpose stands in
tests/conformance/better.py, with the reason. Exits with 1 where anything else differs.
"""

import argparse
import collections
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from conformance.better import is_better  # noqa: E402

# Of the larger of the element and a share of the largest one, which sums of rounded terms need.
TOLERANCE = {"float64": (1e-9, 1e-3), "complex128": (1e-9, 1e-3), "float32": (2e-4, 1e-2),
             "complex64": (2e-4, 1e-2), "float16": (1e-2, 0.5),
             "bfloat16": (6e-2, 0.5)}  # fmt: skip
NOTHING = 1e-14  # of numbers around 1, what is left of those that cancel


def outcomes(python, flag, calls, names, path):
    """Starts a library on the calls."""
    script = ROOT / "tests" / "conformance" / "outcomes.py"
    command = [python, str(script), flag, path, str(calls), *names]
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


def near(ours, theirs, dtype, exact):
    """Are the arrays equal, or are ours at least as near to the exact ones?"""
    if dtype not in TOLERANCE:
        return np.array_equal(ours, theirs)
    kind = "c16" if "complex" in dtype else "f8"
    a, b = ours.astype(kind), theirs.astype(kind)
    relative, share = TOLERANCE[dtype]
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        floor = finite.max() * share if finite.size else 0
        off = np.abs(a - b) > relative * np.maximum(np.abs(b), floor) + NOTHING
        off |= np.isnan(a) != np.isnan(b)
        same_infinity = (a == b) | (np.isnan(a) & np.isnan(b))
        off = (off | (np.isinf(a) | np.isinf(b))) & ~same_infinity
        if not off.any():
            return True
        if exact is None or exact.shape != a.shape:
            return False
        worse = ~(np.abs(a - exact) <= 1.5 * np.abs(b - exact)) & ~(np.isnan(exact) & np.isnan(a))
        return not (off & worse & ~(a == exact)).any()


def result_difference(ours, theirs, exact, values, what):
    """How two results differ, or None."""
    if not (isinstance(ours, tuple) and isinstance(theirs, tuple)):
        same = ours == theirs or (ours != ours and theirs != theirs)
        close = isinstance(ours, float | complex) and np.isclose(ours, theirs, 1e-3, equal_nan=True)
        if type(ours) is type(theirs) and (same or close or not values):
            return None
        return f"{what}: {ours!r}, not {theirs!r}"
    if ours[:2] != theirs[:2]:
        return f"{what}: {ours[0]}{list(ours[1])}, not {theirs[0]}{list(theirs[1])}"
    wide = exact[2] if isinstance(exact, tuple) else None
    if not values or near(ours[2], theirs[2], ours[0], wide):
        return None
    return f"{what}: other values"


def difference(ours, theirs, exact, values):
    """How two outcomes differ, or None."""
    if ours[0] == "raised" or theirs[0] == "raised":
        if ours[0] != theirs[0]:
            who = "only PyTorch refuses" if theirs[0] == "raised" else "refused"
            return f"{who}: {(theirs if theirs[0] == 'raised' else ours)[2]}"
        # Of several faults one library sees another first; a refusal by dtype is always right.
        fine = theirs[1][0] in ours[1] or "DTypeError" in ours[1]
        return None if fine else f"other class: {ours[1][0]}, not {theirs[1][0]}"
    if len(ours[1]) != len(theirs[1]):
        return f"{len(ours[1])} results, not {len(theirs[1])}"
    wide = exact if exact and exact[0] == "gave" else None
    for i, (a, b) in enumerate(zip(ours[1], theirs[1], strict=True)):
        third = wide[1][i] if wide and len(wide[1]) == len(ours[1]) else None
        if found := result_difference(a, b, third, values, f"result {i}"):
            return found
    return gradient_difference(ours[2], theirs[2], wide[2] if wide else None, values)


def gradient_difference(ours, theirs, exact, values):
    if isinstance(theirs, str):
        return None  # PyTorch has none, and says so
    if isinstance(ours, str):
        return f"gradient: {ours}"
    if (ours is None) != (theirs is None):
        if ours is None or any(g is not None and g[2].any() for g in ours):
            return f"gradient: {'none' if ours is None else 'only here'}"
        return None
    for i, (a, b) in enumerate(zip(ours or [], theirs or [], strict=True)):
        if a is None or b is None:
            kept = a or b
            if kept is not None and kept[2].any():
                return f"gradient {i}: {'none' if a is None else 'only here'}"
            continue
        third = exact[i] if isinstance(exact, list) and len(exact) == len(ours) else None
        if found := result_difference(a, b, third, values, f"gradient {i}"):
            return found
    return None


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
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--classes", action="store_true", help="compare classes of errors, too")
    parser.add_argument("ops", nargs="*")
    options = parser.parse_args()
    peer = os.environ.get("TORCH_PYTHON")
    if not peer:
        sys.exit("TORCH_PYTHON must name a Python with PyTorch and SciPy")
    lines, total, bad = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("ours", "theirs")]
        sides = zip((sys.executable, peer), ("--self", "--peer"), paths, strict=True)
        running = [outcomes(who, flag, options.calls, options.ops, to) for who, flag, to in sides]
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
