"""Pointwise ops of one tensor."""

import numpy as np
from scipy import special

from ops.sample import C, DType, OpSample, T


def rounded(f):
    """Integers as they are: NumPy before 2.1 would go through float64."""
    return lambda x: x if x.dtype.kind in "iub" else f(x)


def unary(name, ref, lo=-3.0, hi=3.0, **kw):
    shapes = [(3, 5), (), (0, 4), (2, 3, 4, 5)]
    kw.setdefault("extremes", True)
    kw.setdefault("calls", [C(T(*s, lo=lo, hi=hi)) for s in shapes])
    return OpSample(name, ref, **kw)


def same(x):
    return x


def real_sign(x):
    return x if x.dtype == bool else np.where(np.isnan(x), 0, np.sign(x)).astype(x.dtype)


def complex_sign(x):
    return (
        np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
        if np.iscomplexobj(x)
        else (real_sign(x))
    )


def relu(x):
    return np.where(x > 0, x, np.where(np.isnan(x), x, 0)).astype(x.dtype)


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + special.erf(x / np.sqrt(2)))


def round_decimals(x, decimals=0):
    return np.round(x * 10.0**decimals) / 10.0**decimals if decimals else np.round(x)


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def logit(x, eps=None):
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def frexp(x):
    return np.frexp(x)


def clamp(x, min=None, max=None):
    return np.clip(x, min, max)


def softplus(x):
    return np.logaddexp(0, x)


def angle(x):
    return np.angle(x) if np.iscomplexobj(x) else np.where(np.isnan(x), x, np.pi * (x < 0))


BOOL_RESULT = [
    unary("isnan", np.isnan),
    unary("isinf", np.isinf),
    unary("isfinite", np.isfinite),
    unary("isposinf", np.isposinf),
    unary("isneginf", np.isneginf),
    unary("isreal", np.isreal),
    unary(
        "signbit",
        lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
        skip_extremes=("bfloat16", "float16"),
    ),
    unary("logical_not", np.logical_not),
]

ROUNDING = [
    unary("abs", np.abs, aliases=("absolute",)),
    unary("neg", np.negative, aliases=("negative",)),
    unary("positive", same),
    unary("sign", real_sign),
    unary("sgn", complex_sign, skip_extremes=("complex64", "complex128")),
    unary("ceil", rounded(np.ceil)),
    unary("floor", rounded(np.floor)),
    unary("trunc", rounded(np.trunc), aliases=("fix",)),
    unary(
        "round",
        round_decimals,
        calls=[
            C(T(3, 5, lo=-30, hi=30)),
            C(T()),
            C(T(0, 4)),
            C(T(7), decimals=2),
            C(T(7), decimals=-1),
        ],
    ),
    unary("frac", lambda x: x - np.trunc(x)),
    unary("bitwise_not", np.invert),
    unary("square", np.square),
    unary("reciprocal", np.reciprocal, 0.3, 4),
    unary("relu", relu),
    unary(
        "nan_to_num",
        nan_to_num,
        extremes=False,
        calls=[
            C(T(3, 5)),
            C(T()),
            C(T(0, 4)),
            C(T(2, 3), nan=1.0, posinf=2.0, neginf=3.0),
        ],
    ),
    unary(
        "clamp",
        clamp,
        extremes=False,
        aliases=("clip",),
        calls=[
            C(T(3, 5), 1, 2),
            C(T(), min=0),
            C(T(0, 4), max=2),
            C(T(2, 3), min=1, max=0),
            C(T(2, 3), T(2, 3), T(3)),
            C(T(3), min=T(1)),
        ],
    ),
    unary("clamp_min", np.maximum, extremes=False, calls=[C(T(3, 5), 1), C(T(2, 3), T(3))]),
    unary("clamp_max", np.minimum, extremes=False, calls=[C(T(3, 5), 1), C(T(2, 3), T(3))]),
]

EXPONENTIAL = [
    unary("exp", np.exp, slack=2),
    unary("exp2", np.exp2, slack=2),
    unary("expm1", np.expm1, slack=2),
    unary("log", np.log, 0.1, 9),
    unary("log2", np.log2, 0.1, 9),
    unary("log10", np.log10, 0.1, 9),
    unary("log1p", np.log1p, -0.9, 9),
    unary("sqrt", np.sqrt, 0, 9),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 9),
    unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), aliases=("special.expit",)),
    unary(
        "logit",
        logit,
        aliases=("special.logit",),
        calls=[
            C(T(3, 5, lo=0.1, hi=0.9)),
            C(T(lo=0.2, hi=0.8)),
            C(T(0, 4)),
            C(T(7, lo=-1, hi=2), 1e-3),
        ],
    ),
    unary("nn.functional.logsigmoid", lambda x: -np.logaddexp(0, -x)),
    unary("nn.functional.softplus", softplus, slack=8, extremes=False),
    unary("nn.functional.silu", lambda x: x / (1 + np.exp(-x)), extremes=False),
    unary(
        "nn.functional.gelu",
        gelu,
        extremes=False,
        calls=[
            C(T(3, 5)),
            C(T()),
            C(T(0, 4)),
            C(T(3, 5), approximate="tanh"),
        ],
    ),
]

TRIGONOMETRIC = [
    unary("sin", np.sin, skip_extremes=("float16", "bfloat16")),
    unary("cos", np.cos, skip_extremes=("float16", "bfloat16")),
    unary("tan", np.tan, -1.4, 1.4, slack=4, extremes=False),
    unary("asin", np.arcsin, -0.9, 0.9, aliases=("arcsin",)),
    unary("acos", np.arccos, -0.9, 0.9, aliases=("arccos",), slack=2),
    unary("atan", np.arctan, aliases=("arctan",)),
    unary("sinh", np.sinh, slack=4),
    unary("cosh", np.cosh, slack=4),
    unary("tanh", np.tanh),
    unary("asinh", np.arcsinh, aliases=("arcsinh",), extremes=False),
    unary("acosh", np.arccosh, 1.1, 9, aliases=("arccosh",), extremes=False),
    unary("atanh", np.arctanh, -0.9, 0.9, aliases=("arctanh",)),
    unary("sinc", np.sinc, slack=4, extremes=False, aliases=("special.sinc",)),
    unary("deg2rad", np.deg2rad),
    unary("rad2deg", np.rad2deg),
]

SPECIAL = [
    unary("erf", special.erf, aliases=("special.erf",)),
    unary("erfc", special.erfc, aliases=("special.erfc",), slack=4),
    unary("erfinv", special.erfinv, -0.9, 0.9, slack=4, aliases=("special.erfinv",)),
    unary(
        "lgamma", special.gammaln, 0.3, 8, slack=16, extremes=False, aliases=("special.gammaln",)
    ),
    unary(
        "digamma",
        special.digamma,
        0.3,
        8,
        slack=16,
        extremes=False,
        aliases=("special.digamma", "special.psi"),
    ),
    # PyTorch is off by 3e-10 here, so SciPy is the judge
    unary(
        "polygamma",
        special.polygamma,
        slack=4,
        extremes=False,
        method_self=1,
        calls=[
            C(1, T(3, 5, lo=0.5, hi=4)),
            C(2, T(3, lo=0.5, hi=4)),
        ],
    ),
    unary("i0", special.i0, slack=16, extremes=False, aliases=("special.i0",)),
]

COMPLEX_PARTS = [
    unary("angle", angle),
    unary("real", np.real, extremes=False),
    unary("imag", np.imag, extremes=False),
    unary("conj", np.conj, extremes=False),
    unary("conj_physical", np.conj, extremes=False),
    unary("resolve_conj", same, extremes=False),
    unary("resolve_neg", same, extremes=False),
    unary("frexp", frexp, extremes=False, grad=False),
]


def to_dtype(x, dtype=None):
    return x.real.astype(dtype) if x.dtype.kind == "c" and dtype.kind != "c" else x.astype(dtype)


def clone_like(x, **kw):
    return x


def caster(name, dtype):
    return unary(
        name, lambda x: to_dtype(x, np.dtype(dtype)), extremes=False, grad=False, lo=0, hi=3
    )


COPIES = [
    unary("clone", clone_like, extremes=False),
    unary("detach", clone_like, extremes=False, grad=False),
    unary("alias_copy", clone_like, extremes=False),
    unary("contiguous", clone_like, extremes=False),
    unary("to", to_dtype, extremes=False, grad=False, calls=[
        C(T(3, 4, lo=0), DType(d)) for d in ("bool", "uint8", "int64", "float16", "float64")
    ] + [C(T(2, 3), dtype=DType("complex64")), C(T(0, 2), DType("int32"))]),
    caster("bool", "bool"), caster("byte", "u1"), caster("char", "i1"), caster("short", "i2"),
    caster("int", "i4"), caster("long", "i8"), caster("half", "f2"), caster("float", "f4"),
    caster("double", "f8"), caster("bfloat16", "f4"),
    caster("chalf", "c8"), caster("cfloat", "c8"), caster("cdouble", "c16"),
]  # fmt: skip

ROWS = BOOL_RESULT + ROUNDING + EXPONENTIAL + TRIGONOMETRIC + SPECIAL + COMPLEX_PARTS + COPIES
