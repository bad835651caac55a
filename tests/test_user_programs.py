"""Programs as users write them (tests/user_programs): they run, and mypy and pyright find nothing
to say about them or about the examples."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).resolve().parent / "user_programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))


def test_there_are_ten():
    assert len(PROGRAMS) >= 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs(name, tmp_path):
    code = f"import {name}; print('result', float({name}.main()))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(FOLDER), str(ROOT)])}
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], cwd=tmp_path,
                          capture_output=True, text=True, timeout=300, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert math.isfinite(float(done.stdout.split()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--check-untyped-defs"]], ids=["plain", "every body"])
def test_mypy_finds_nothing(options, tmp_path):
    pytest.importorskip("mypy", reason="mypy comes with `make lint`")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-incremental", *options]
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run([*command, *FOLDER.glob("*.py")], cwd=tmp_path, capture_output=True,
                          text=True, timeout=900, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def pyright(tmp_path, mode, paths):
    """The errors and warnings that pyright gives for programs which lie apart from the package."""
    pytest.importorskip("pyright", reason="pyright comes with `make lint`")
    include = [os.path.relpath(path, tmp_path) for path in paths]
    settings = {"include": include, "typeCheckingMode": mode, "extraPaths": [str(ROOT)],
                "pythonVersion": "3.10"}  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "-p", tmp_path], cwd=tmp_path, capture_output=True, text=True,
                          timeout=900)  # fmt: skip
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] >= len(paths)
    return [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']}"
        for d in found["generalDiagnostics"]
    ]


@pytest.mark.slow
def test_pyright_finds_nothing(tmp_path):
    paths = [*FOLDER.glob("*.py"), *(ROOT / "examples").glob("*.py")]
    assert pyright(tmp_path, "standard", paths) == []


@pytest.mark.slow
def test_pyright_finds_mistakes(tmp_path):
    """So that the silence above means something."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import rushlight as torch\ntorch.ones(2).not_there\ntorch.nn.Linear('2', 3)\n"
        "x: str = torch.ones(1)\n"
    )
    assert [line.split(":")[1] for line in pyright(tmp_path, "standard", [wrong])] == [
        "2",
        "3",
        "4",
    ]
