"""Densities, moments, entropies and divergences against what PyTorch 2.13 answers."""

import json
import pathlib
import sys

import numpy as np
import pytest

import rushlight as rl

ORACLE = pathlib.Path(__file__).resolve().parent.parent / "oracle"
sys.path.insert(0, str(ORACLE))

from distribution_cases import CASES, answer, divergence, divergences  # noqa: E402

RECORD = json.loads((ORACLE / "distributions.json").read_text())
# Kinds of answers that we have and PyTorch has not.
EXTRA = {("LogisticNormal", "mode")}
IMPRECISE = {("Multinomial", "entropy")}  # there PyTorch counts in float32
# PyTorch takes logarithms and powers of negative numbers there.
WRONG = {("Kumaraswamy", "mode"), ("Weibull", "mode")}


def close(ours, theirs, rtol=1e-9):
    np.testing.assert_allclose(np.array(ours, "f8"), np.array(theirs, "f8"), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("i", range(len(CASES)), ids=[c[0] for c in CASES])
def test_answers(i):
    name = CASES[i][0]
    ours, theirs = answer(rl, *CASES[i]), RECORD["answers"][i]
    for key, value in theirs.items():
        if key in ("shapes", "support"):
            assert ours[key] == value
        elif (name, key) in WRONG:
            assert ours[key] is not None
        elif value is None:
            assert ours[key] is None or (name, key) in EXTRA, f"{name}.{key}"
        else:
            assert ours[key] is not None, f"{name}.{key} is missing"
            close(ours[key], value, 1e-6 if (name, key) in IMPRECISE else 1e-9)


PAIRS = divergences()


@pytest.mark.parametrize("i", range(len(PAIRS)), ids=[f"{p[0]}-{q[0]}" for p, q in PAIRS])
def test_divergences(i):
    close(divergence(rl, *PAIRS[i]), RECORD["divergences"][i], 1e-8)
