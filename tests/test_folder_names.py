"""What is ours is decided by the package's own folder, however a program's folders are called."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight import _C

PACKAGE = Path(rushlight.__file__).parent

# Folders as users have them; each test runs a program that lies there.
FOLDERS = [
    "rushlight",
    "rushlight/examples",
    "with space/rushlight",
    "prøjekt ü/rushlight",
    "%s %d",
]

PROGRAM = """
import warnings
import rushlight as rl
from rushlight import nn

with warnings.catch_warnings(record=True) as seen, rl.autograd.set_detect_anomaly(True):
    warnings.simplefilter("always")
    rl.tensor([-1.0], requires_grad=True).sqrt()  # NaN
print(str(seen[0].message))

x = rl.ones(3, requires_grad=True)
y = x.exp()  # saved
y.add_(1)  # overwritten
try:
    y.sum().backward()
except RuntimeError as e:
    print(e)

class Own(nn.Module):
    def forward(self, x):
        raise ValueError("mine")
try:
    nn.Sequential(Own())(x)
except ValueError as e:
    print(repr(e))  # the text of a program's own error stays as it was
"""


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_program_in_any_folder(folder, tmp_path):
    where = tmp_path / folder
    where.mkdir(parents=True)
    script = where / "train.py"
    script.write_text(PROGRAM, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = PROGRAM.splitlines()
    number = {end: i for i, line in enumerate(lines, 1) for end in [line.rpartition("# ")[2]]}
    nan, *overwritten, own = run.stdout.splitlines()
    assert f"{script}:{number['NaN']}" in nan
    text = "\n".join(overwritten)
    assert f"{script}:{number['saved']} " in text and f"{script}:{number['overwritten']} " in text
    if sys.version_info >= (3, 11):  # before, exceptions had no notes
        assert own == "ValueError('mine')"


def test_the_judge():
    ours = _C._is_package_file
    assert ours(str(PACKAGE / "nn" / "functional" / "activation.py"))
    assert ours(rushlight.__file__)
    assert not ours(str(PACKAGE) + "_user/train.py")
    assert not ours(str(PACKAGE.parent / "train.py"))
    assert not ours("/home/somebody/rushlight/train.py")
    assert not ours("<stdin>") and not ours("") and not ours("\udcff.py")
    with pytest.raises(TypeError, match="expected a str, got int"):
        ours(3)
