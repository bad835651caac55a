"""What packages written for PyTorch compute under as_torch, against figures that PyTorch recorded.

make ecosystem            makes the environment, runs these tests in it, writes docs/ecosystem.md

A file of `uses/` is one test, and runs in a process of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from compare import differences

if not os.environ.get("RUSHLIGHT_ECOSYSTEM"):
    pytest.skip("needs an environment of its own: make ecosystem", allow_module_level=True)

HERE = Path(__file__).resolve().parent
RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted(HERE.glob("figures/*.json"))}
RESULTS = Path(os.environ["RUSHLIGHT_ECOSYSTEM"])  # what came of every file, for the table


def run(name):
    """The facts of a file of uses, as run_uses.py writes them."""
    out = RESULTS / f"{name}.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "rushlight.as_torch", HERE / "run_uses.py", name, out]
    done = subprocess.run(command, capture_output=True, text=True, cwd=RESULTS, timeout=1800)
    if out.exists():
        return json.loads(out.read_text())
    return {"uses": {}, "failures": {"import": done.stderr[-4000:]}}


def compared(ours, recorded):
    found = [f"{what}: not there" for what in recorded if what not in ours]
    found += [f"{what}: PyTorch recorded none" for what in ours if what not in recorded]
    for what in recorded:
        if what in ours:
            found += differences(what, ours[what], recorded[what])
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_uses(name):
    facts, recorded = run(name), RECORDED[name]["uses"]
    facts["differences"] = {
        use: compared(facts["uses"][use], recorded[use]) for use in recorded if use in facts["uses"]
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(facts, indent=1))
    assert not facts["failures"], "\n".join(facts["failures"].values())
    found = [f"{use}: {line}" for use, lines in facts["differences"].items() for line in lines]
    assert not found, "\n".join(found)


def test_no_pytorch_here():
    """The environment has a torch of metadata alone."""
    done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True)
    assert "No module named 'torch'" in done.stderr
