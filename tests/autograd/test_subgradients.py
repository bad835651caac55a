"""Gradients at kinks, ties and poles are PyTorch's, as recorded in oracle/subgradients.json."""

import json
import math
import sys
from pathlib import Path

import pytest

import rushlight as rl

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
sys.path.insert(0, str(ORACLE))

from subgradients import CASES, gradients, name_of  # noqa: E402

RECORDED = json.loads((ORACLE / "subgradients.json").read_text())


def near(a, b):
    """The same side of a kink was taken. PyTorch has some constants, as 1/6, in float32 only."""
    a, b = complex(eval_number(a)), complex(eval_number(b))
    return all(
        (math.isnan(p) and math.isnan(q)) or p == q or abs(p - q) <= 1e-7 * (1 + abs(q))
        for p, q in ((a.real, b.real), (a.imag, b.imag))
    )


def eval_number(text):
    return eval(text, {"inf": math.inf, "nan": math.nan, "nanj": complex(0, math.nan)})


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_as_recorded(case):
    want, got = RECORDED[name_of(case)], gradients(rl, case)
    for w, g in zip(want, got, strict=True):
        w = w or ["0.0"] * len(g or [])
        g = g or ["0.0"] * len(w)
        assert len(w) == len(g) and all(map(near, g, w)), f"got {g}, PyTorch gives {w}"
