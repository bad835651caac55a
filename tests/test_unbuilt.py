"""What `import rushlight` says where the compiled core is not there, or is another Python's."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight import _C
from rushlight._unbuilt import explained

PACKAGE = Path(rushlight.__file__).parent
BUILT = Path(_C.__file__).name
OTHER = "_C.cpython-39-aarch64-linux-gnu.so"


@pytest.fixture
def checkout(tmp_path):
    """The package's own files, without what a build adds."""
    ignore = shutil.ignore_patterns("*.so", "lib", "__pycache__", "*.bin")
    shutil.copytree(PACKAGE, tmp_path / "rushlight", ignore=ignore)
    return tmp_path


def import_error(folder, statement="import rushlight"):
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {statement}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1 and "circular" not in done.stderr, done.stderr
    return done.stderr.splitlines()[-1]


def test_not_built(checkout):
    text = import_error(checkout)
    assert text.startswith("ImportError: rushlight: "), text
    assert "make build" in text and "pip install ." in text and str(checkout) in text


STATEMENTS = [
    "import rushlight.nn",
    "from rushlight import nn, optim",
    "from rushlight.nn import functional as F",
    "from rushlight import *",
    "import rushlight._C",
]


@pytest.mark.parametrize("stubs", [True, False])
def test_every_import_says_it(checkout, stubs):
    """A fresh clone has no folder _C; a build that was cleaned leaves one, with stubs."""
    folder = checkout / "rushlight" / "_C"
    folder.mkdir(exist_ok=True)
    if not stubs:
        shutil.rmtree(folder)
    text = import_error(checkout)
    for statement in STATEMENTS:
        assert import_error(checkout, statement) == text, statement


def test_built_for_another_python(checkout):
    (checkout / "rushlight" / OTHER).touch()
    text = import_error(checkout)
    ours = ".".join(map(str, sys.version_info[:3]))
    assert "built for CPython 3.9 on aarch64" in text and f"CPython {ours}" in text, text
    assert "make build" in text


def test_without_the_library(checkout):
    shutil.copy(PACKAGE / BUILT, checkout / "rushlight")
    text = import_error(checkout)
    assert "librushlight.so is missing" in text and BUILT in text, text


def test_other_reasons_are_told_as_they_are(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "librushlight.so").touch()
    (tmp_path / BUILT).touch()
    (tmp_path / OTHER).touch()
    error = ImportError("libstdc++.so.6: version `GLIBCXX_3.4.30' not found")
    assert explained(error, tmp_path) is error
