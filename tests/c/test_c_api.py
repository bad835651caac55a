"""rushlight.h: from C, from ctypes, and a binding that is made from ops.json."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn

HERE = Path(__file__).resolve().parent
PACKAGE = Path(rl.__file__).resolve().parent


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)

    def forward(self, x):
        return self.fc(x)

    def loss(self, x, y):
        return ((self(x) - y) ** 2).mean()


def test_c_loads_trains_and_saves(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    rl.manual_seed(1)
    net = Regression()
    x = rl.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = rl.tensor([[0.0], [1.0], [1.0], [2.0]])
    traced = rl.jit.trace_module(net, {"forward": x, "loss": (x, y)})
    rl.jit.save(traced, tmp_path / "net.rush")
    done = subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", HERE / "train.c",
         f"-I{PACKAGE / 'include'}", f"-L{PACKAGE / 'lib'}", "-lrushlight",
         f"-Wl,-rpath,{PACKAGE / 'lib'}", "-o", tmp_path / "train"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "train", tmp_path / "net.rush", tmp_path / "trained.rush"],
                          capture_output=True, text=True, env={"PATH": os.defpath})  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    optimizer = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(60):
        loss = net.loss(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    count, last = lines[0].split()
    assert count == "2" and abs(float(last) - loss.item()) <= 1e-6
    assert lines[1:3] == ["2 4", "2 4"]
    assert "no_such_operator: there is no operator" in lines[3] and "float33" in lines[4]
    trained = rl.jit.load(tmp_path / "trained.rush")
    assert rl.allclose(trained(x), net(x), atol=1e-5)


def test_a_binding_made_from_the_table():
    done = subprocess.run([sys.executable, "-I", HERE / "by_ctypes.py", PACKAGE],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"loss (\S+)", done.stdout)[1]) < 0.05 and "ok" in done.stdout


def test_the_table_as_data():
    table = json.loads((PACKAGE / "share" / "ops.json").read_text())
    names = {op["name"] for op in table["ops"]}
    assert {"add", "add_", "matmul", "conv2d", "softmax"} <= names
    add = next(op for op in table["ops"] if op["name"] == "add" and op["form"] == "functional")
    assert [a["name"] for a in add["args"]] == ["self", "other", "alpha"]
    assert add["args"][2] == {
        "name": "alpha",
        "type": "Scalar",
        "keyword_only": True,
        "default": "1",
    }


def test_every_function_is_there_and_takes_null():
    """Every function of the header exists; what is null is refused, and nothing crashes."""
    library = ctypes.CDLL(str(PACKAGE / "lib" / "librushlight.so"))
    header = (PACKAGE / "include" / "rushlight.h").read_text()
    names = set(re.findall(r"\b(rush_\w+)\(", header)) - {"rush_call"}
    assert len(names) > 25
    library.rush_last_error.restype = ctypes.c_char_p
    out = ctypes.c_void_p()
    for name in names:
        assert hasattr(library, name), name
    for name, args in {
        "rush_tensor_share": (None, ctypes.byref(out)),
        "rush_tensor_from_dlpack": (None, ctypes.byref(out)),
        "rush_tensor_to_dlpack": (None, ctypes.byref(out)),
        "rush_tensor_copy_to": (None, None, ctypes.c_size_t(0)),
        "rush_tensor_new": (None, 2, b"float32", None, ctypes.byref(out)),
        "rush_backward": (None, 0),
        "rush_grad": (None, ctypes.byref(out)),
        "rush_program_load": (None, None, ctypes.byref(out)),
        "rush_program_save": (None, None),
        "rush_optimizer_step": (None,),
        "rush_load_library": (None,),
        "rush_call": (None, None, 0, None, 0, None),
    }.items():
        assert getattr(library, name)(*args) != 0, name
        assert library.rush_last_error(), name
    for name in ("rush_tensor_free", "rush_program_free", "rush_optimizer_free", "rush_value_free"):
        getattr(library, name)(None)
    sizes = (ctypes.c_int64 * 1)(-3)
    assert library.rush_tensor_new(sizes, 1, b"float32", None, ctypes.byref(out)) != 0
    assert (
        library.rush_load_library(b"/nowhere.so") != 0 and b"nowhere" in library.rush_last_error()
    )
