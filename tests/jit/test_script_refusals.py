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
