"""Ranges for NVIDIA's tools, as a tool sees them (nvtx_tool.cpp)."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.cuda import nvtx

CODE = """
import rushlight as rl
from rushlight.cuda import nvtx
x = rl.ones(2, 3, requires_grad=True)
print(nvtx.range_push("outer"), nvtx.range_push("inner"), nvtx.range_pop(), nvtx.range_pop())
nvtx.mark("here")
number = nvtx.range_start("across threads")
nvtx.range_end(number)
with nvtx.range("step {}", 3):
    pass
@nvtx.range("decorated")
def f():
    return 1
assert f() == 1
with rl.autograd.profiler.emit_nvtx(record_shapes=True):
    with rl.profiler.record_function("named"):
        (x * 2).sum().backward()
x * 3  # nobody looks any more
"""


def test_without_a_tool_nothing_happens():
    assert nvtx.range_push("x") == nvtx.range_pop() == -2
    assert nvtx.range_start("x") == 0 and nvtx.range_end(0) is None and nvtx.mark("x") is None
    with pytest.raises(TypeError):
        nvtx.range_push(3)
    with nvtx.range("of {} and {b}", 1, b=2), rl.autograd.profiler.emit_nvtx():
        rl.ones(2) * 2


def test_what_a_tool_sees(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    source = pathlib.Path(__file__).with_name("nvtx_tool.cpp")
    tool, log = tmp_path / "tool.so", tmp_path / "log"
    subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", source, "-o", tool], check=True)
    env = {**os.environ, "NVTX_INJECTION64_PATH": str(tool), "NVTX_TOOL_LOG": str(log)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "1", "1", "0"]
    lines = log.read_text().splitlines()
    by_hand = ["push outer", "push inner", "pop", "pop", "mark here", "start across threads",
               "end 41", "push step 3", "pop", "push decorated", "pop", "push named"]  # fmt: skip
    assert lines[: len(by_hand)] == by_hand
    assert lines[len(by_hand)] == "push aten::mul, sizes = [[2, 3], []]"
    assert any(line.startswith("push autograd::engine::evaluate_function: Mul") for line in lines)
    assert sum(line.startswith("push") for line in lines) == lines.count("pop")
    assert sum("aten::mul, sizes = [[2, 3], []]" in line for line in lines) == 2  # and backward
