"""Calls with sparse tensors print, or refuse, what PyTorch recorded (`oracle/sparse_calls.py`)."""

import json
import re
import sys
from pathlib import Path

import pytest

import rushlight as rl

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
sys.path.insert(0, str(ORACLE))
import sparse_calls  # noqa: E402

RECORDED = json.loads((ORACLE / "sparse.json").read_text())
BETTER = [e for group in sparse_calls.BETTER.values() for e in group]


def test_every_expression_is_recorded():
    assert list(RECORDED) == sparse_calls.EXPRESSIONS
    assert set(BETTER) <= set(sparse_calls.EXPRESSIONS)


def plain(text):
    """Numbers to three places: the last bit is not what this is about."""
    return re.sub(r"(\d\.\d{3})\d*", r"\1", text)


@pytest.mark.parametrize("expression", [e for e in RECORDED if e not in BETTER])
def test_call(expression):
    got, want = sparse_calls.shown(rl, expression), RECORDED[expression]
    if want.startswith("!"):
        assert got.startswith("!") and want.split()[1] in got.split(), f"{got}, not {want}"
    else:
        assert plain(got) == plain(want)


@pytest.mark.parametrize("expression", BETTER)
def test_what_differs_on_purpose_still_does(expression):
    assert plain(sparse_calls.shown(rl, expression)) != plain(RECORDED[expression])


def test_the_guide_runs():
    page = (ORACLE.parent.parent / "docs" / "sparse.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    space = {}
    for block in blocks:
        exec(block, space)
    assert len(blocks) == 3 and space["a"].grad.layout == rl.sparse_csr


def test_a_library_may_ask_for_rpc():
    from rushlight.distributed.rpc.api import _require_initialized

    with pytest.raises(RuntimeError, match="init_rpc"):
        _require_initialized(lambda: 1)()
