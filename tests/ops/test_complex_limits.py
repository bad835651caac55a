"""Complex functions at infinite and nan parts: C's Annex G, which NumPy follows."""

import numpy as np
import pytest

import rushlight as rl

PARTS = [0.0, -0.0, 1.0, -2.5, 0.5, np.inf, -np.inf, np.nan]
POINTS = np.array([complex(a, b) for a in PARTS for b in PARTS])
NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "cos": "cos",
    "cosh": "cosh",
    "exp": "exp",
    "log": "log",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}


def same(got, want):
    """Equal or near, with the sign of zeros; any nan equals any nan."""
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= 1e-6 * np.abs(want)
    zeros = (got == 0) & (want == 0)
    return (
        (np.isnan(got) & np.isnan(want))
        | (zeros & (np.signbit(got) == np.signbit(want)))
        | (~zeros & ((got == want) | near))
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_limits(name, dtype):
    z = POINTS.astype(dtype)
    with np.errstate(all="ignore"):
        want = getattr(np, NAMES[name])(z)
    if name == "acosh":  # (NumPy before 2.3 follows an older C in these)
        want[(z.real == 0) & np.isnan(z.imag)] = complex(np.nan, np.pi / 2)
    got = getattr(rl, name)(rl.from_numpy(z.copy())).numpy()
    # The standard leaves the sign of these parts open: of zeros and infinities beside a nan, and of
    # exp(-inf) at an angle that is not finite.
    open_re = np.isnan(want.imag) | ((want == 0) & ~np.isfinite(z.imag))
    open_im = np.isnan(want.real) | ((want == 0) & ~np.isfinite(z.imag))
    re = same(np.where(open_re, np.abs(got.real), got.real),
              np.where(open_re, np.abs(want.real), want.real))  # fmt: skip
    im = same(np.where(open_im, np.abs(got.imag), got.imag),
              np.where(open_im, np.abs(want.imag), want.imag))  # fmt: skip
    wrong = ~(re & im)
    assert not wrong.any(), list(zip(z[wrong], got[wrong], want[wrong], strict=True))
