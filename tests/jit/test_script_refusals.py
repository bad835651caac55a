"""What jit.script refuses: each with the reason, and the user's file and line."""

import importlib.util
import re
from pathlib import Path

import pytest

import rushlight as rl

TEXT = (Path(__file__).parent / "language" / "refused.txt").read_text()
HEAD = """\
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple, Union
import rushlight as torch
from rushlight import Tensor
T = torch.ones(2)
G = [1]
class P(NamedTuple):
    x: int
    y: int
class A:
    pass
"""
CASES = [block.split("\n", 1) for block in TEXT.split("## ")[1:]]


def loaded(path, source):
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_a_hundred():
    assert len(CASES) >= 100


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c[0][:40] for c in CASES])
def test_refused(number, tmp_path):
    reason, source = CASES[number]
    source = HEAD + source
    line = next(i for i, text in enumerate(source.splitlines(), 1) if "# here" in text)
    path = tmp_path / f"refused_{number}.py"
    function = loaded(path, source).f
    with pytest.raises(RuntimeError, match="^script: ") as error:
        rl.jit.script(function)
    text = str(error.value)
    assert re.search(reason, text), text
    where = re.search(r'File "(.*)", line (\d+), column (\d+), in (\w+)', text)
    assert where, text
    assert where[1] == str(path) and int(where[2]) == line, text
    assert f"    {source.splitlines()[line - 1].strip()}\n" in text


def test_many_ifs_that_may_continue(tmp_path):
    """What follows them is not copied for each way through them."""
    one = "  if n == {}:\n   x = x + 1\n   if n > 20:\n    continue\n"
    lines = "".join(map(one.format, range(30)))
    text = "def {}(x, n: int):\n for k in {}:\n" + lines + "  x = x + 2\n return x\n"
    both = text.format("same", (1, 2, 3)) + text.format("mixed", (1, "2"))
    module = loaded(tmp_path / "ifs.py", both)
    for n in (3, 25, 99):
        assert rl.jit.script(module.same)(rl.zeros(1), n).equal(module.same(rl.zeros(1), n))
    with pytest.raises(RuntimeError, match="continue in a loop over modules"):
        rl.jit.script(module.mixed)


def test_expressions_that_are_too_deep(tmp_path):
    module = loaded(tmp_path / "deep.py", "def f(x):\n    return x" + " + 1" * 900 + "\n")
    with pytest.raises(RuntimeError, match="nested too deep\n.*line 1"):
        rl.jit.script(module.f)


def test_functions_of_the_library_that_always_raise():
    def f(x):
        return rl.fft.rfft(x, n=0)

    with pytest.raises(RuntimeError, match="the result of _one .* always raises here"):
        rl.jit.script(f)
