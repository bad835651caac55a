"""Pointwise ops of two and three tensors; comparison, logical and bitwise ops."""

import numpy as np

from ops.sample import FLOAT, C, OpSample, T, V


def binary(name, ref, scalar=2, lo=-3.0, hi=3.0, nonzero=False, **kw):
    """The usual calls: same shape, broadcast, a number, 0-d, empty; `nonzero` for divisors."""
    a = {"lo": lo, "hi": hi}
    b = {"lo": lo, "hi": hi, "nonzero": nonzero}
    calls = [
        C(T(3, 5, **a), T(3, 5, **b)),
        C(T(2, 3, 1, 5, **a), T(3, 4, 1, **b)),
        C(T(**a), T(2, **b)),
        C(T(0, 4, **a), T(4, **b)),
        C(T(2, 3, 4, 5, **a), T(2, 3, 4, 5, **b)),
    ]
    if scalar is not None:
        calls.append(C(T(3, 4, **a), scalar))
    kw.setdefault("calls", calls)
    kw.setdefault("extremes", True)
    return OpSample(name, ref, **kw)


NO_INT = ("int64", "int32", "int16", "int8", "uint8", "bool")
HALF = ("float16", "bfloat16")


def add(a, b, alpha=1):
    return (
        np.logical_or(a, b)
        if a.dtype == bool and np.asarray(b).dtype == bool
        else a + (np.multiply(b, alpha))
    )


def mul(a, b):
    return np.multiply(a, b)


def div(a, b, rounding_mode=None):
    if rounding_mode is None:
        return np.true_divide(a, b)
    if np.asarray(a).dtype.kind in "iu":
        return a // b if rounding_mode == "floor" else np.trunc(a / b).astype(a.dtype)
    return np.floor_divide(a, b) if rounding_mode == "floor" else np.trunc(a / b)


def power(a, b):
    if a.dtype == bool:
        return np.logical_or(a, np.logical_not(b))
    return np.power(a, b)


def lerp(a, b, w):
    return a + w * (b - a)


def nextafter(a, b):
    return np.nextafter(a, b)


def xlogy(x, y):
    with np.errstate(all="ignore"):
        r = np.where(x == 0, 0.0, x * np.log(np.where(x == 0, 1.0, y)))
    return np.where(np.isnan(y), np.nan, r)


def hypot(a, b):
    return np.sqrt(a * a + b * b)


def shift_left(a, b):
    return np.left_shift(a, b)


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return np.isclose(a * 1.0, b * 1.0, rtol, atol, equal_nan)


ARITHMETIC = [
    binary("add", add),
    binary("sub", lambda a, b, alpha=1: a - np.multiply(b, alpha), aliases=("subtract",)),
    binary("mul", mul, aliases=("multiply",)),
    binary(
        "div",
        div,
        nonzero=True,
        aliases=("divide",),
        skip_extremes=NO_INT,
        calls=[
            C(T(3, 5), T(3, 5, nonzero=True)),
            C(T(2, 3, 1), T(3, 4, nonzero=True)),
            C(T(4), 2),
            C(T(), T(2, nonzero=True)),
            C(T(0, 4), T(4, nonzero=True)),
            C(T(3, 5, lo=0, hi=9), T(3, 5, lo=1, hi=4), rounding_mode="floor"),
            C(T(3, 5, lo=0, hi=9), T(3, 5, lo=1, hi=4), rounding_mode="trunc"),
            C(T(3, 5), 2, rounding_mode="trunc"),
        ],
    ),
    binary("true_divide", np.true_divide, nonzero=True, extremes=False),
    binary(
        "floor_divide",
        np.floor_divide,
        grad=False,
        lo=0,
        hi=9,
        extremes=False,
        calls=[
            C(T(3, 5, lo=-9, hi=9), T(3, 5, lo=1, hi=4)),
            C(T(2, 1, lo=0), T(3, lo=1)),
            C(T(4, lo=0, hi=9), 2),
            C(T(0, 3), 2),
        ],
    ),
    binary(
        "remainder",
        np.remainder,
        calls=[
            C(T(3, 5, lo=-9, hi=9), T(3, 5, lo=1, hi=4)),
            C(T(2, 1, lo=0), T(3, lo=1)),
            C(T(4, lo=0, hi=9), 2),
            C(T(0, 3), 2),
            C(T(5), -2.5),
        ],
        extremes=False,
    ),
    binary(
        "fmod",
        np.fmod,
        calls=[
            C(T(3, 5, lo=-9, hi=9), T(3, 5, lo=1, hi=4)),
            C(T(2, 1, lo=0), T(3, lo=1)),
            C(T(4, lo=0, hi=9), 2),
            C(T(0, 3), 2),
        ],
        extremes=False,
    ),
    binary(
        "pow",
        power,
        extremes=False,
        slack=4,
        calls=[
            C(T(3, 5, lo=0.2, hi=3), T(3, 5, lo=0, hi=3)),
            C(T(2, 1, lo=0.2), T(3, lo=0, hi=2)),
            C(T(4), 2),
            C(T(4, lo=0.5, hi=4), 0.5),
            C(T(4), 3),
            C(T(0, 3), 2),
            C(T(3, lo=1), 1),
            C(T(3), 0),
            C(T(lo=0.5), T(2, lo=0)),
        ],
    ),
    binary("float_power", lambda a, b: np.float_power(a, b), lo=0.5, slack=4, extremes=False),
    OpSample(
        "rsub",
        lambda a, b, alpha=1: b - a * alpha,
        [C(T(3, 5), T(3, 5)), C(T(4), 2), C(T(4), 3, alpha=2)],
    ),
    binary(
        "atan2",
        np.arctan2,
        aliases=("arctan2",),
        scalar=None,
        nonzero=True,
        skip_extremes=(*NO_INT, *HALF),
    ),
    binary("hypot", hypot, scalar=None, extremes=False),
    binary("copysign", np.copysign, skip_extremes=(*NO_INT, *HALF)),
    binary("nextafter", nextafter, scalar=None, grad=False, extremes=False),
    binary(
        "ldexp",
        lambda a, b: a * 2.0**b,
        scalar=None,
        peer_bugs=("grad",),
        extremes=False,
        calls=[
            C(T(3, 5), V([1, 2, -3, 0, 4], dtype="int32")),
            C(T(0, 2), V([1, 2], dtype="int32")),
        ],
    ),
    binary("xlogy", xlogy, lo=0.1, extremes=False, aliases=("special.xlogy",)),
    binary("logaddexp", np.logaddexp, dtypes=tuple(FLOAT), scalar=None, extremes=False, slack=2),
    binary("logaddexp2", np.logaddexp2, scalar=None, extremes=False, slack=2),
    binary("maximum", np.maximum, scalar=None),
    binary("minimum", np.minimum, scalar=None),
    binary("fmax", np.fmax, scalar=None),
    binary("fmin", np.fmin, scalar=None),
    binary("heaviside", np.heaviside, scalar=None, grad=False, extremes=False),
    binary("gcd", np.gcd, scalar=None, extremes=False),
    binary("lcm", np.lcm, scalar=None, extremes=False),
    binary("complex", lambda a, b: a + 1j * b, scalar=None, extremes=False),
    binary("polar", lambda r, t: r * np.exp(1j * t), scalar=None, lo=0.1, extremes=False),
]

COMPARISON = [
    binary("eq", np.equal),
    binary("ne", np.not_equal, aliases=("not_equal",)),
    binary("lt", np.less, aliases=("less",)),
    binary("le", np.less_equal, aliases=("less_equal",)),
    binary("gt", np.greater, aliases=("greater",)),
    binary("ge", np.greater_equal, aliases=("greater_equal",)),
    binary("logical_and", np.logical_and, scalar=None),
    binary("logical_or", np.logical_or, scalar=None),
    binary("logical_xor", np.logical_xor, scalar=None),
    binary("bitwise_and", np.bitwise_and),
    binary("bitwise_or", np.bitwise_or),
    binary("bitwise_xor", np.bitwise_xor),
    binary("bitwise_left_shift", shift_left, lo=0, hi=3, extremes=False),
    binary("bitwise_right_shift", np.right_shift, lo=0, hi=3, extremes=False),
    binary(
        "isclose",
        isclose,
        scalar=None,
        extremes=False,
        calls=[
            C(V([1.0, 2.0, 3.0]), V([1.0, 2.0, 4.0])),
            C(T(2, 3), T(3)),
            C(T(0, 3), T(3)),
            C(T(4), T(4), rtol=0.5, atol=1.0),
        ],
    ),
    OpSample(
        "allclose",
        lambda a, b, **k: bool(np.all(isclose(a, b, **k))),
        [
            C(V([1.0, 2.0]), V([1.0, 2.0])),
            C(V([1.0, 2.0]), V([1.0, 3.0])),
            C(V([1.0, np.nan]), V([1.0, np.nan]), equal_nan=True),
            C(V([1.0, 2.0]), V([1.0, 2.1]), atol=0.2),
        ],
        meta=False,
    ),
    OpSample(
        "equal",
        lambda a, b: bool(np.array_equal(a, b)),
        [
            C(V([1, 2]), V([1, 2])),
            C(V([1, 2]), V([1, 3])),
            C(V([1, 2]), V([[1, 2]])),
            C(T(0), T(0)),
        ],
        meta=False,
    ),
    OpSample(
        "is_nonzero", lambda a: bool(a.item() != 0), [C(V([1])), C(V(0)), C(V([[3]]))], meta=False
    ),
]

TERNARY = [
    OpSample(
        "where",
        np.where,
        [
            C(T(3, 5, dtype="bool"), T(3, 5), T(3, 5)),
            C(T(3, 1, dtype="bool"), T(1, 5), T()),
            C(T(0, 2, dtype="bool"), T(0, 2), T(2)),
            C(T(4, dtype="bool"), T(4), 1),
            C(T(4, dtype="bool"), 1, T(4)),
        ],
        method_self=1,
    ),
    OpSample(
        "lerp",
        lerp,
        [
            C(T(3, 5), T(3, 5), 0.3),
            C(T(3, 5), T(3, 5), T(3, 5, lo=0, hi=1)),
            C(T(2, 1), T(3), 0.7),
            C(T(), T(), 0.5),
            C(T(0, 3), T(3), 0.5),
        ],
        slack=2,
    ),
    OpSample(
        "addcmul",
        lambda x, a, b, value=1: x + value * a * b,
        [
            C(T(3, 5), T(3, 5), T(3, 5)),
            C(T(3, 5), T(3, 1), T(5), value=2),
            C(T(0, 2), T(2), T(2)),
        ],
        slack=2,
    ),
    OpSample(
        "addcdiv",
        lambda x, a, b, value=1: x + value * a / b,
        [
            C(T(3, 5), T(3, 5), T(3, 5, nonzero=True)),
            C(T(3, 5), T(3, 1), T(5, nonzero=True), value=2),
            C(T(0, 2), T(2), T(2)),
        ],
        slack=4,
    ),
]

ROWS = ARITHMETIC + COMPARISON + TERNARY
