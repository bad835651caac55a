"""What packages written for PyTorch compute under as_torch, against figures that PyTorch recorded.

make ecosystem            makes the environment, runs these tests in it, writes docs/ecosystem.md

A file of `uses/` runs once, in a process of its own; each function in it is one test.
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


@pytest.fixture(scope="module")
def ours():
    """The facts of a file of uses, as run_uses.py writes them."""
    known = {}

    def facts(name):
        if name not in known:
            out = RESULTS / f"{name}.json"
            out.unlink(missing_ok=True)
            command = [sys.executable, "-m", "rushlight.as_torch", HERE / "run_uses.py", name, out]
            done = subprocess.run(command, capture_output=True, text=True, cwd=RESULTS, timeout=900)
            known[name] = json.loads(out.read_text()) if out.exists() else {
                "uses": {}, "failures": {"import": done.stderr[-4000:]}}  # fmt: skip
            known[name]["differences"] = {}
            out.write_text(json.dumps(known[name], indent=1))
        return known[name]

    return facts


# One process of pytest-xdist has all of a file (--dist loadgroup).
@pytest.mark.parametrize(
    "name, use",
    [
        pytest.param(name, use, marks=pytest.mark.xdist_group(name), id=f"{name}-{use}")
        for name, facts in RECORDED.items()
        for use in facts["uses"]
    ],
)
def test_use(name, use, ours):
    facts, recorded = ours(name), RECORDED[name]["uses"][use]
    failure = facts["failures"].get("import") or facts["failures"].get(use)
    assert not failure, failure
    figures = facts["uses"][use]
    found = [f"{what}: not there" for what in recorded if what not in figures]
    found += [f"{what}: PyTorch recorded none" for what in figures if what not in recorded]
    for what in recorded.keys() & figures.keys():
        found += differences(what, figures[what], recorded[what])
    facts["differences"][use] = found
    (RESULTS / f"{name}.json").write_text(json.dumps(facts, indent=1))
    assert not found, "\n".join(found)


def test_no_pytorch_here():
    """The environment has a torch of metadata alone."""
    done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True)
    assert "No module named 'torch'" in done.stderr
