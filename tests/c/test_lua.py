"""The binding for LuaJIT that examples/lua makes of rushlight.h and ops.json."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "lua"
PACKAGE = Path(rl.__file__).resolve().parent


@pytest.fixture(scope="module")
def binding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lua")
    subprocess.run([sys.executable, "-I", EXAMPLE / "make_binding.py", PACKAGE, folder], check=True)
    return folder


def test_the_binding_has_every_operator(binding):
    text = (binding / "rushlight.lua").read_text()
    assert 'define("linear", {{"Tensor", "Tensor", "Tensor"}})' in text
    assert (
        "int rush_call(const char* op" in text
        and "extern" not in text
        and "#" not in (text[text.index("cdef [[") : text.index("]]")])
    )


def test_lua_trains_a_perceptron(binding):
    lua = shutil.which("luajit")
    if lua is None:
        pytest.skip("needs luajit (Debian: apt install luajit)")
    rl.manual_seed(3)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    x = rl.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    rl.jit.save(rl.jit.trace(net, x), binding / "net.rush")
    done = subprocess.run([lua, EXAMPLE / "perceptron.lua", binding / "net.rush"], cwd=binding,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    loss, program, operators = (line.split() for line in done.stdout.splitlines())
    assert float(loss[1]) < 1e-3
    assert rl.allclose(rl.tensor([float(n) for n in program[1:]]), net(x).flatten(), atol=1e-6)
    assert int(operators[1]) > 500
