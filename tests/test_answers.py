"""What PyTorch answers at the edges of what functions take (`oracle/answers.py`)."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

ORACLE = Path(__file__).resolve().parent / "oracle"
sys.path.insert(0, str(ORACLE))
import answers  # noqa: E402

RECORDED = json.loads((ORACLE / "answers.json").read_text())


def test_every_expression_is_recorded():
    assert list(RECORDED) == answers.EXPRESSIONS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", answers.EXPRESSIONS)
def test_answer(expression):
    got, want = answers.answer(rl, expression), RECORDED[expression]
    if isinstance(want[0], str):
        assert want[0] in got, f"{got[0]}, not {want[0]}"
        return
    assert len(got) == len(want), got
    for ours, theirs in zip(got, want, strict=True):
        if theirs is None:  # where the gradient is zero, PyTorch may have none
            assert ours is None or not np.any(ours[3]), ours
            continue
        assert ours is not None
        assert ours[:3] == theirs[:3]
        loose = 2e-2 if "bfloat16" in expression else 1e-5
        np.testing.assert_allclose(ours[3], theirs[3], rtol=loose, atol=1e-7)
