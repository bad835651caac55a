"""Compares Rushlight with PyTorch on the samples of PyTorch's own operator database.

    TORCH_PYTHON=path python tools/opinfo.py [--samples N] [--again] [--device cuda]
        [--report file] [name ...]

The database (torch.testing._internal; expecttest and hypothesis must be installed beside PyTorch)
has samples of every op, module and optimiser and inputs that must be refused. PyTorch draws them
for every dtype that it supports on the CPU and records what it makes of them, once, in a folder;
Rushlight runs the same calls on the same memory in a process of its own. Results, dtypes, shapes,
gradients (second ones for float64), in-place, out= and method forms and classes of errors are
compared here. A name is a section ("op add", "error add", "module nn.Linear", "optimizer SGD") or
the word behind its kind. With --device cuda our side runs on a GPU. Exits with 1 where anything
differs that is not in tests/conformance/better.py.
"""

import argparse
import collections
import os
import pathlib
import pickle
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from conformance.better import is_better_sample  # noqa: E402
from conformance.compare import sample_difference  # noqa: E402
from conformance.samples import file_name  # noqa: E402

KINDS = {"op": "ops agree", "module": "modules agree", "optimizer": "optimisers agree"}
SCRIPTS = ROOT / "tests" / "conformance"


def start(command, names, jobs):
    """Runs the command on shares of the names, side by side."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    running = [
        subprocess.Popen([*command, *names[i::jobs]], env=env)
        for i in range(jobs)
        if names[i::jobs]
    ]
    codes = [process.wait() for process in running]  # of all, also when the first has failed
    if any(codes):
        sys.exit("a library could not run the samples: see above")


def listed(peer):
    """The sections of the database."""
    command = [peer, str(SCRIPTS / "database.py"), "--list"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def differences(name, recorded, ours):
    """Of a section: how many cases there are, those that differ, by what differs, and how many
    differ on purpose."""
    count, kinds, better = 0, collections.OrderedDict(), 0
    for (case, theirs, exact), mine in zip(recorded, ours, strict=True):
        if mine is None or (case.refused and theirs[0] != "raised"):
            continue  # PyTorch itself refuses the sample, or takes what it should refuse
        count += 1
        found = sample_difference(case, mine, theirs, exact)
        if found is None:
            continue
        if is_better_sample(name, found, case.text):
            better += 1
            continue
        kinds.setdefault(found.split(":")[0], []).append(f"{found}\n      {case.text}")
    return count, kinds, better


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10000, help="at most, per op and dtype")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "opinfo")
    parser.add_argument("--again", action="store_true", help="draw what is recorded already")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of our side")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=1, help="shown per kind of difference")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    peer = os.environ.get("TORCH_PYTHON")
    if not peer:
        sys.exit("TORCH_PYTHON must name a Python with PyTorch, expecttest and hypothesis")
    wanted = set(options.names)
    names = [n for n in listed(peer) if not wanted or n in wanted or n.split(" ", 1)[1] in wanted]
    theirs, ours = options.folder / "theirs", options.folder / "ours"
    for folder in (theirs, ours):
        folder.mkdir(parents=True, exist_ok=True)
    todo = [n for n in names if options.again or not (theirs / file_name(n)).exists()]
    start(
        [peer, str(SCRIPTS / "database.py"), str(theirs), str(options.samples)], todo, options.jobs
    )
    ran = [sys.executable, str(SCRIPTS / "samples.py"), options.device, str(theirs), str(ours)]
    start(ran, names, options.jobs)
    sys.exit(report(names, theirs, ours, options))


def report(names, theirs, ours, options):
    """Writes what differs; 1 where anything does."""
    lines, tally, cases = [], collections.Counter(), 0
    for name in names:
        recorded = pickle.loads((theirs / file_name(name)).read_bytes())
        if isinstance(recorded, int):
            lines.append(f"{name}: PyTorch ended with status {recorded}")
            continue
        mine = pickle.loads((ours / file_name(name)).read_bytes())
        kind = name.split()[0]
        if isinstance(mine, int):
            lines.append(f"{name}: Rushlight ended with status {mine}")
            tally[kind, "all"] += 1
            continue
        count, kinds, better = differences(name, recorded, mine)
        if not count:
            continue
        cases += count
        bad = sum(map(len, kinds.values()))
        tally[kind, "all"] += count if kind == "error" else 1
        tally[kind, "good"] += count - bad if kind == "error" else not bad
        tally[kind, "better"] += bool(better) and not bad
        tally[kind, "other class"] += len(kinds.get("other class", ()))
        for found in kinds.values():
            lines.append(
                f"{name}: {len(found)} of {count}: " + "\n  ".join(found[: options.examples])
            )
    for kind, words in KINDS.items():
        if tally[kind, "all"]:
            lines.append(
                f"{tally[kind, 'good']} of {tally[kind, 'all']} {words}, "
                f"{tally[kind, 'better']} of them but for what is better on purpose"
            )
    if tally["error", "all"]:
        lines.append(
            f"{tally['error', 'good']} of {tally['error', 'all']} bad inputs refused with "
            f"PyTorch's class of error, {tally['error', 'other class']} with another"
        )
    lines.append(f"{cases} cases compared")
    text = "\n".join(lines)
    print(text)
    if options.report:
        options.report.write_text(text + "\n")
    return any(tally[kind, "good"] != tally[kind, "all"] for kind in ("error", *KINDS))


if __name__ == "__main__":
    main()
