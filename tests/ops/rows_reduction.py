"""Reductions and scans."""

import numpy as np
from scipy import special

from ops.sample import C, DType, OpSample, T, V, no_grad


def axis(dim):
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def reduction(f):
    """A NumPy reduction in PyTorch's words: dim, keepdim, dtype."""

    def ref(x, dim=None, keepdim=False, dtype=None):
        x = x if dtype is None else x.astype(dtype)
        return f(x, axis=axis(dim) if dim != [] else None, keepdims=keepdim)

    return ref


def reduce(name, f, several=True, dtype=False, full=True, empty=True, **kw):
    """`several`: takes a list of dims; `full`: may leave dim out; `empty`: has an identity."""
    spec = kw.pop("spec", {})
    calls = [C(T(3, 5, **spec), 1), C(T(2, 3, 4, 5, **spec), -2, keepdim=True),
             C(T(2, 1, 3, **spec), 1)]  # fmt: skip
    if full:
        calls += [C(T(3, 5, **spec)), C(T(**spec)), C(T(kw.pop("long", 300), **spec))]
    if several:
        calls += [C(T(2, 3, 4, 5, **spec), (0, 2)), C(T(2, 3, 4, **spec), (-1, 0), keepdim=True)]
    if empty:
        calls += [C(T(0, 4), 0), C(T(4, 0), 0)]
    if dtype:
        calls += [C(T(3, 5, **spec), 1, dtype=DType("float64"))]
    return OpSample(name, reduction(f), calls + kw.pop("more", []), **kw)


def moment(f):
    def ref(x, dim=None, unbiased=None, keepdim=False, correction=1):
        ddof = correction if unbiased is None else int(unbiased)
        return f(x, axis=axis(dim), ddof=ddof, keepdims=keepdim)

    return ref


def moments(name, ref):
    calls = [
        C(T(3, 5)),
        C(T(3, 5), 1),
        C(T(2, 3, 4), (0, 2), keepdim=True),
        C(T(3, 5), 0, False),
        C(T(3, 5), dim=0, correction=0),
        C(T(3, 5), dim=0, correction=2, keepdim=True),
    ]
    return OpSample(name, ref, calls, slack=4)


def with_mean(f):
    def ref(x, dim=None, unbiased=None, keepdim=False, correction=1):
        mean = np.mean(x, axis=axis(dim), keepdims=keepdim)
        return moment(f)(x, dim, unbiased, keepdim, correction), mean

    return ref


def chosen(values, indices):
    """max(dim), sort-like pairs: value and index along one dim."""

    def ref(x, dim=None, keepdim=False):
        if dim is None:
            return values(x, axis=None)
        i = indices(x, axis=dim)
        v = values(x, axis=dim)
        return (np.expand_dims(v, dim), np.expand_dims(i, dim)) if keepdim else (v, i)

    return ref


def extreme(values, indices, pair):
    choose = chosen(values, indices)
    return lambda x, d=None, keepdim=False: (
        pair(x, d) if isinstance(d, np.ndarray) else choose(x, d, keepdim)
    )


def lower_median(x, dim=None, keepdim=False):
    flat = x.ravel() if dim is None else x
    d = 0 if dim is None else dim
    k = (flat.shape[d] - 1) // 2
    order = np.argsort(flat, axis=d, kind="stable")
    i = np.take(order, [k], axis=d)
    v = np.take_along_axis(flat, i, d)
    if dim is None:
        return v[0]
    return (v, i) if keepdim else (v.squeeze(d), i.squeeze(d))


def kthvalue(x, k, dim=-1, keepdim=False):
    i = np.take(np.argsort(x, axis=dim, kind="stable"), [k - 1], axis=dim)
    v = np.take_along_axis(x, i, dim)
    return (v, i) if keepdim else (v.squeeze(dim), i.squeeze(dim))


def norm(x, p="fro", dim=None, keepdim=False):
    p = 2 if p in ("fro", None) else p
    a, ax = np.abs(x), axis(dim)
    if p == np.inf:
        return a.max(axis=ax, keepdims=keepdim)
    if p == 0:
        return (a != 0).sum(axis=ax, keepdims=keepdim).astype(a.dtype)
    return (a**p).sum(axis=ax, keepdims=keepdim) ** (1 / p)


def cum_extreme(f):
    def ref(x, dim):
        v = f.accumulate(x, axis=dim)
        n, i = x.shape[dim], np.zeros(x.shape, "int64")
        best = np.moveaxis(x, dim, 0)[0].copy() if n else None
        at = np.zeros_like(np.moveaxis(i, dim, 0)[0]) if n else None
        for k in range(n):
            row = np.moveaxis(x, dim, 0)[k]
            new = f(best, row) == row
            best, at = np.where(new, row, best), np.where(new, k, at)
            np.moveaxis(i, dim, 0)[k] = at
        return v, i

    return ref


def scan(f):
    def ref(x, dim, dtype=None):
        return np.reshape(f(x if dtype is None else x.astype(dtype), axis=dim), x.shape)

    return ref


def logcumsumexp(x, dim):
    return np.log(np.cumsum(np.exp(x), axis=dim))


def quantile(x, q, dim=None, keepdim=False, interpolation="linear"):
    return np.quantile(x, q, axis=dim, keepdims=keepdim, method=interpolation)


def diff(x, n=1, dim=-1):
    return np.diff(x, n, dim)  # of bool: logical_xor


def scans(name, f, **kw):
    calls = [C(T(3, 5), 1), C(T(2, 3, 4, 5), 0), C(T(), 0), C(T(0, 4), 0), C(T(300), 0)]
    return OpSample(name, scan(f), calls + kw.pop("more", []), **kw)


def aminmax(x, dim=None, keepdim=False):
    return tuple(f(x, axis=dim, keepdims=keepdim and dim is not None) for f in (np.min, np.max))


def mode(x, dim=-1):
    values = [np.unique(r, return_counts=True) for r in x]
    best = np.array([v[np.argmax(c)] for v, c in values])
    return best, np.array([np.flatnonzero(r == b)[-1] for r, b in zip(x, best, strict=False)])


def trapezoid(y, x=None, dx=1, dim=-1):
    return np.trapezoid(y, x, dx, dim) if hasattr(np, "trapezoid") else np.trapz(y, x, dx, dim)


ONE = {"lo": 0.9, "hi": 1.1}
DISTINCT = {"distinct": True}
APART = {"distinct": True, "lo": 0}

INF = float("inf")
# inf and nan: values only, the derivative is not a number there
ODD = [no_grad(C(V(v), 0)) for v in ([1, np.nan, 2], [INF, 1, 3], [INF, -INF], [-INF, -1])]

SUMS = [
    reduce("sum", np.sum, dtype=True, slack=30, more=ODD),
    reduce("nansum", np.nansum, dtype=True, slack=30, more=ODD),
    reduce("mean", np.mean, dtype=True, peer_bugs=("out",), empty=False, slack=8, more=ODD),
    reduce("nanmean", np.nanmean, dtype=True, empty=False, slack=8),
    reduce("prod", np.prod, several=False, dtype=True, slack=300, spec=ONE, long=60),
    OpSample("logsumexp", lambda x, d, keepdim=False: special.logsumexp(
        x, axis=axis(d), keepdims=keepdim), [
        C(T(3, 5), 1), C(T(2, 3, 4), (0, 2)), C(T(2, 3), -1, keepdim=True), C(T(), 0)],
        slack=2),
    OpSample("softmax", lambda x, d, dtype=None: special.softmax(
        x.astype(dtype or "f8"), axis=d), [
        C(T(3, 5), 1), C(T(2, 3, 4, 5), 1), C(T(0, 2), 1), C(T(), 0), C(T(4),
        0, dtype=DType("float64"))],
        aliases=("nn.functional.softmax",)),
    OpSample("log_softmax", lambda x, d, dtype=None: special.log_softmax(
        x.astype(dtype or "f8"), axis=d), [
        C(T(3, 5), 1), C(T(2, 3, 4, 5), 1), C(T(0, 2), 1), C(T(), 0), C(T(4),
        0, dtype=DType("float64"))],
        aliases=("nn.functional.log_softmax",)),
    moments("var", moment(np.var)), moments("std", moment(np.std)),
    moments("var_mean", with_mean(np.var)), moments("std_mean", with_mean(np.std)),
    OpSample("norm", norm, [
        C(T(3, 5)), C(T(3, 5), 2, 1), C(T(3, 5), 1, 0, True), C(T(3, 5), np.inf, 1),
        C(T(3, 5), 0, 1), C(T(3, 5), 3.0, (0, 1)), C(T(3, 5), "fro", (0, 1)), C(T(4), p=2)],
        slack=8),
    OpSample("linalg.vector_norm", lambda x, ord=2, dim=None, keepdim=False: norm(
        x, ord, dim, keepdim), [
        C(T(3, 5)), C(T(3, 5), 1, 0), C(T(3, 5), np.inf, 1, True), C(T(2, 3, 4), 2, (0, 2))],
        slack=8),
    OpSample("dist", lambda a, b, p=2: norm(a - b, p), [
        C(T(3, 5), T(3, 5)), C(T(3, 5), T(5), 1), C(T(4), T(4), np.inf)], slack=8),
    OpSample("trace", np.trace, [C(T(3, 5)), C(T(4, 4)), C(T(0, 0))]),
    OpSample("trapezoid", trapezoid, [C(T(3, 5)), C(T(4), T(4)), C(T(4), dx=0.5)],
             aliases=("trapz",), slack=8),
]  # fmt: skip

CHOICES = [
    reduce("amax", np.max, empty=False, spec=DISTINCT, more=ODD),
    reduce("amin", np.min, empty=False, spec=DISTINCT, more=ODD),
    OpSample("aminmax", aminmax, [
        C(T(3, 5, **APART)), C(T(3, 5, **APART), dim=0), C(T(2, 3), dim=1, keepdim=True)]),
    OpSample("max", extreme(np.max, np.argmax, np.maximum), [
        C(T(3, 5, **APART)), C(T(3, 5, **APART), 1), C(T(2, 3, 4, **APART), -2, keepdim=True),
        C(T(2, 1, 3, **APART), 1), C(T(3, 5), T(3, 5)), C(T()), C(T(3, 0), 0)]),
    OpSample("min", extreme(np.min, np.argmin, np.minimum), [
        C(T(3, 5, **APART)), C(T(3, 5, **APART), 1), C(T(2, 3, 4, **APART), -2, keepdim=True),
        C(T(2, 1, 3, **APART), 1), C(T(3, 5), T(3, 5)), C(T()), C(T(3, 0), 0)]),
    reduce("argmax", np.argmax, several=False,
           empty=False, spec=APART, more=ODD),
    reduce("argmin", np.argmin, several=False, empty=False, spec=APART, more=ODD),
    OpSample("median", lower_median, [
        C(T(3, 5, **APART)), C(T(3, 5, **APART), 1), C(T(4, 2, **APART), 0, True), C(T())],
        peer_bugs=("expanded",)),
    OpSample("nanmedian", lower_median, [
        C(T(3, 5, **APART)), C(T(3, 5, **APART), 1), C(T(4, 2, **APART), 0, True), C(T())],
        peer_bugs=("expanded",)),
    OpSample("kthvalue", kthvalue, [
        C(T(3, 5, **APART), 2), C(T(3, 5, **APART), 3, 0), C(T(4, **APART), 1, 0, True)],
        peer_bugs=("expanded",)),
    OpSample("mode", mode, [C(V([[1, 2, 2, 3], [3, 3, 1, 0]])), C(V([[5]]), -1)],
        meta=False, grad=False),
    OpSample("quantile", quantile, [
        C(T(3, 5), 0.3), C(T(3, 5), 0.25, 1), C(T(3, 5), 0.5, 0, keepdim=True),
        C(T(3, 4), 0.4, 1, interpolation="lower"), C(T(3, 4), 0.4, 1, interpolation="nearest")],
        slack=2),
    OpSample("nanquantile", quantile, [C(T(3, 5), 0.3), C(T(3, 5), 0.25, 1)], slack=2),
]  # fmt: skip

COUNTS = [
    reduce("any", np.any, more=ODD),
    reduce("all", np.all, more=ODD),
    OpSample(
        "count_nonzero",
        lambda x, dim=None: np.count_nonzero(x, axis=axis(dim)),
        [C(T(3, 5)), C(T(3, 5), 1), C(T(2, 3, 4), (0, 2)), C(T(0, 3)), C(T())],
    ),
]

SCANS = [
    scans(
        "cumsum",
        np.cumsum,
        slack=30,
        casts_inplace=True,
        more=[*ODD, C(T(3, 5), 1, dtype=DType("float64"))],
    ),
    scans(
        "cumprod",
        np.cumprod,
        slack=300,
        casts_inplace=True,
        more=[C(T(3, 5), 1, dtype=DType("float64"))],
        layouts=False,
    ),
    OpSample(
        "cummax",
        cum_extreme(np.maximum),
        [C(T(3, 5, **APART), 1), C(T(2, 3, 4, **APART), 0), C(T(0, 3), 1)],
    ),
    OpSample(
        "cummin",
        cum_extreme(np.minimum),
        [C(T(3, 5, **APART), 1), C(T(2, 3, 4, **APART), 0), C(T(0, 3), 1)],
    ),
    OpSample(
        "logcumsumexp", logcumsumexp, [C(T(3, 5), 1), C(T(2, 3, 4), 0), C(T(0, 3), 0)], slack=4
    ),
    OpSample("diff", diff, [C(T(5)), C(T(5, 4, lo=0), 1, 0), C(T(2, 5, lo=0), 2)]),
    OpSample(
        "cumulative_trapezoid",
        lambda y, dx=1: np.cumsum((y[..., 1:] + y[..., :-1]) * (dx / 2), axis=-1),
        [C(T(3, 5)), C(T(6), dx=0.5)],
        slack=8,
    ),
]

ROWS = SUMS + CHOICES + COUNTS + SCANS
