"""What only debug builds check: the GIL, and NaN in fresh memory. `make sanitize` runs these."""

import subprocess
import sys

import pytest

import rushlight as torch
from rushlight import _C

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not _C._debug_build, reason="a check of debug builds"),
]

# ctypes lets the GIL go around a CFUNCTYPE call: rushlight.zeros then runs without it.
WITHOUT_GIL = """
import ctypes
import rushlight as torch
address = ctypes.pythonapi.PyCFunction_GetFunction
address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object]
kind = {kind}(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)
size = (ctypes.py_object * 1)(3)
kind(address(torch.zeros))(None, ctypes.addressof(size), 1, None)
print("survived")
"""


def run(kind, folder):
    # From another folder: the current one comes first in the path and may hold a release build.
    command = [sys.executable, "-c", WITHOUT_GIL.format(kind=kind)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_ops_from_python_need_the_gil(tmp_path):
    assert run("ctypes.PYFUNCTYPE", tmp_path).stdout == "survived\n"
    done = run("ctypes.CFUNCTYPE", tmp_path)
    assert done.returncode != 0 and "survived" not in done.stdout
    assert "without the GIL" in done.stderr


def test_fresh_memory_is_nan():
    assert torch.empty(1000).isnan().all()
