"""Gradients at kinks, ties and poles are PyTorch's, as recorded in oracle/subgradients.json."""

import json
import math
import sys
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
@pytest.mark.parametrize("rows", [3, 30])
def test_distances_of_points_to_themselves(rows, mode):
    """The root of zero has no slope: the gradient of such a distance is zero, by either way."""
    x = np.random.default_rng(0).standard_normal((rows, 4))
    ours = rl.tensor(x, requires_grad=True)
    rl.exp(-rl.cdist(ours, ours, compute_mode=mode)).sum().backward()
    difference = x[:, None] - x[None]
    distance = np.sqrt((difference**2).sum(-1))
    slope = np.divide(-np.exp(-distance), distance, out=0 * distance, where=distance > 0)
    expected = 2 * (slope[..., None] * difference).sum(1)
    # Products of rows lose digits where a distance is small: the diagonal need not be zero.
    np.testing.assert_allclose(ours.grad, expected, rtol=1e-6, atol=1e-6)


def test_equal_points_by_matrix_products():
    same = rl.ones(30, 2, dtype=rl.float64, requires_grad=True)
    distances = rl.cdist(same, same)
    distances.sum().backward()
    assert not distances.any() and not same.grad.any()
    assert rl.cdist(rl.full((30, 1), float("nan")), rl.ones(30, 1)).isnan().all()


def test_powers_by_numbers():
    """A number beside a tensor stays a number until backward: the slope has all digits, and that
    of a constant has no slope."""
    x = rl.tensor([0.5, 1.5, 3.0], dtype=rl.float64, requires_grad=True)
    v = x.detach().numpy()
    for found, slope in [(2**x, np.log(2) * 2**v), (3.5**x, np.log(3.5) * 3.5**v),
                         (x**2, 2 * v), (x**3, 3 * v**2), (x**0.3, 0.3 * v**-0.7), (x**1, v**0),
                         (x**-1, -(v**-2)), (x**True, v**0)]:  # fmt: skip
        (grad,) = rl.autograd.grad(found.sum(), x)
        np.testing.assert_allclose(grad, slope, rtol=1e-14)
    zero = rl.zeros(2, dtype=rl.float64, requires_grad=True)
    (grad,) = rl.autograd.grad((zero**0).sum(), zero, create_graph=True)
    assert not grad.any() and not grad.requires_grad
    single = rl.tensor([[float("inf")], [2.0]], requires_grad=True)
    single.cumprod(1).sum().backward()
    assert single.grad.tolist() == [[1], [1]]
