"""Traced graphs are PyTorch's, and do what the programs do."""

import json
import re
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import fx

ORACLE = Path(__file__).parent.parent / "oracle"
sys.path.insert(0, str(ORACLE))
import fx_programs  # noqa: E402

PROGRAMS = fx_programs.programs(rl)
PEER = json.loads((ORACLE / "fx.json").read_text())


def same(ours, theirs):
    if isinstance(ours, rl.Tensor):
        return rl.equal(ours, theirs) and ours.dtype == theirs.dtype
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return set(ours) == set(theirs) and all(same(ours[k], theirs[k]) for k in ours)
    return ours == theirs


def copies(inputs):
    return [x.clone() for x in inputs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_graph_is_pytorchs(name):
    rows = fx_programs.rows_of(fx.symbolic_trace(PROGRAMS[name][0]).graph, rl)
    peer = PEER[name]
    if peer is None:  # PyTorch cannot trace it
        return
    assert [row[:3] for row in rows] == [row[:3] for row in peer]
    for ours, theirs in zip(rows, peer, strict=True):
        # Where PyTorch's function is written in Python, it gives every argument, by name; where it
        # is ours that is, we do.
        given = dict(ours[4])
        assert ours[3] == theirs[3] or len(given) != len(theirs[4]), (ours, theirs)
        for key in set(given) & set(theirs[4]):
            assert given[key] == theirs[4][key], (ours, theirs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_result_is_the_programs(name):
    program, inputs = PROGRAMS[name]
    module = fx.symbolic_trace(program)
    module.graph.lint()
    expected = program(*copies(inputs))
    assert same(module(*copies(inputs)), expected)
    assert same(fx.Interpreter(module).run(*copies(inputs)), expected)
    assert same(fx.Transformer(module).transform()(*copies(inputs)), expected)
    again = fx.symbolic_trace(module)  # the generated code is a program, too
    assert same(again(*copies(inputs)), expected)


def test_the_guide():
    """docs/fx.md, block by block."""
    page = Path(__file__).parents[2] / "docs" / "fx.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 3
    space = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), space)
