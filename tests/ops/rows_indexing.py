"""Gather, scatter, index_*, masks; sorting and searching."""

import numpy as np

from ops.sample import C, OpSample, T, V, no_grad


def op(name, ref, *calls, **kw):
    return OpSample(name, ref, list(calls), **kw)


def I(values):  # noqa: E743
    return V(values, dtype="int64")


def gather(x, dim, index):
    if x.ndim == 0:
        return np.broadcast_to(x, index.shape)
    where = list(np.indices(index.shape))
    where[dim] = index
    return x[tuple(where)]


def scatter_with(x, dim, index, src, f, include_self=True):
    """x with f(old, new) applied at each index in turn."""
    out, fresh = np.array(x), set()
    src = np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src
    for at in np.ndindex(index.shape):
        to = list(at)
        to[dim] = index[at]
        to = tuple(to)
        if not include_self and to not in fresh:
            out[to] = src[at]
        else:
            out[to] = f(out[to], src[at])
        fresh.add(to)
    return out


REDUCE = {
    None: lambda a, b: b, "add": np.add, "multiply": np.multiply, "sum": np.add,
    "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def scatter(x, dim, index, src, reduce=None):
    return scatter_with(x, dim, index, src, REDUCE[reduce])


def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    if reduce != "mean":
        return scatter_with(x, dim, index, src, REDUCE[reduce], include_self)
    total = scatter_with(x, dim, index, src, np.add, include_self)
    ones = np.ones_like(x, dtype="int64")
    n = scatter_with(ones, dim, index, np.ones(index.shape, "int64"), np.add, include_self)
    return total // n if x.dtype.kind in "iu" else total / n


def along(index, shape, dim):
    """An index vector as the index tensor of scatter."""
    return np.broadcast_to(np.expand_dims(index, [d for d in range(len(shape)) if d != dim]), shape)


def index_with(f):
    def ref(x, dim, index, src, *rest, **kw):
        src = np.asarray(src)
        if src.ndim == 0:
            shape = list(x.shape)
            shape[dim] = len(index)
            src = np.broadcast_to(src, shape)
        return scatter_with(x, dim % x.ndim, along(index, src.shape, dim % x.ndim), src, f)

    return ref


def index_add(x, dim, index, src, alpha=1):
    add = np.logical_or if x.dtype == bool else np.add
    return index_with(add)(x, dim, index, src if alpha == 1 else src * alpha)


def index_reduce(x, dim, index, src, reduce, include_self=True):
    return scatter_reduce(x, dim, along(index, src.shape, dim), src, reduce, include_self)


def index_put(x, indices, values, accumulate=False):
    out = np.array(x)
    if accumulate:
        (np.logical_or if x.dtype == bool else np.add).at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def put(x, index, src, accumulate=False):
    return index_put(x.ravel(), [index], src, accumulate).reshape(x.shape)


def masked_scatter(x, mask, src):
    mask = np.broadcast_to(mask, x.shape)
    out = np.array(x)
    out[mask] = src.ravel()[: mask.sum()]
    return out


def masked_select(x, mask):
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))[
        np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
    ]


def masked_fill(x, mask, value):
    return np.where(mask, np.asarray(value).astype(x.dtype), x)


def placed(x, part, where):
    out = np.array(x)
    out[where] = part
    return out


def fill_diagonal(x, value, wrap=False):
    out = np.array(x)
    np.fill_diagonal(out, value, wrap)
    return out


def nonzero(x, as_tuple=False):
    where = np.nonzero(x) if x.ndim else (np.zeros(int(bool(x)), "int64"),)[:0]
    if as_tuple:
        return tuple(where)
    return np.stack(where, 1) if x.ndim else np.zeros((int(bool(x)), 0), "int64")


def sort(x, dim=-1, descending=False, stable=False):
    i = argsort(x, dim, descending)
    return np.take_along_axis(x, i, dim) if x.ndim else x, i


def argsort(x, dim=-1, descending=False, stable=False):
    if x.ndim == 0:
        return np.zeros((), "int64")
    key = -x.astype("i8") if descending and x.dtype.kind in "biu" else (-x if descending else x)
    return np.argsort(key, axis=dim, kind="stable")


def topk(x, k, dim=-1, largest=True, sorted=True):
    v, i = sort(x, dim, largest)
    return np.take(v, range(k), axis=dim), np.take(i, range(k), axis=dim)


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if not (return_inverse or return_counts):
        return np.unique(x, axis=dim)
    u, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    inverse = inverse.reshape(x.shape if dim is None else -1)
    return [u] + [inverse] * return_inverse + [counts] * return_counts


def unique_consecutive(x, return_inverse=False, return_counts=False):
    new = np.concatenate([[True], x[1:] != x[:-1]])
    inverse = np.cumsum(new) - 1
    return [x[new]] + [inverse] * return_inverse + [np.bincount(inverse)] * return_counts


def searchsorted(a, v, right=False, out_int32=False, side=None):
    side = side or ("right" if right else "left")
    if a.ndim == 1:
        return np.searchsorted(a, v, side)
    return np.stack([np.searchsorted(r, w, side) for r, w in zip(a, v, strict=False)])


def bincount(x, weights=None, minlength=0):
    return np.bincount(x.astype("i8"), weights, minlength)


def histc(x, bins=100, min=0, max=0):
    lo, hi = (x.min(), x.max()) if min == max else (min, max)
    return np.histogram(x, bins, (lo, hi))[0].astype(x.dtype)


M = T(3, 5)
ROWIDX, GRID = I([2, 0, 2]), I([[0, 2, 1], [1, 1, 0]])
MASK = T(3, 5, dtype="bool")
D = T(3, 5, distinct=True, lo=0)

GATHER = [
    op("gather", gather, C(M, 0, GRID), C(M, 1, GRID), C(T(4), 0, I([3, 0])), C(M, 0, I([[]])),
       C(T(), 0, I(0)), C(T(2, 3, 4), -1, I([[[3], [0]], [[1], [2]]]))),
    op("take_along_dim", lambda x, i, dim=None: np.take_along_axis(
        x if dim is not None else x.ravel(), i if dim is not None else i.ravel(), dim or 0),
       C(M, I([[0], [2], [1]]), 1), C(M, I([3, 1])),
       peer_bugs=("strided", "transposed", "channels_last", "expanded")),
    op("take", lambda x, i: x.ravel()[i], C(M, I([0, 14, -1])), C(M, GRID)),
    op("index_select", lambda x, d, i: np.take(x, i, axis=d), C(M, 0, ROWIDX), C(M, -1, I([4, 0])),
       C(M, 1, I([])), C(T(4), 0, I([2]))),
    op("masked_select", masked_select, C(M, MASK), C(T(3, 1), T(5, dtype="bool")), meta=False),
    op("nonzero", nonzero, C(V([[0, 1], [2, 0]])), C(V(3)), C(V(0)), C(T(0, 2)),
       C(V([0, 1, 0, 2]), as_tuple=True), meta=False),
    op("argwhere", nonzero, C(V([[0, 1], [2, 0]])), C(T(0, 2)), meta=False),
    op("index_put", index_put, C(M, [I([0, 2])], T(2, 5)), C(M, [I([0, 2]), I([1, 1])], T(2)),
       C(M, [I([0, 0]), I([1, 1])], T(2), accumulate=True), C(M, [MASK], T())),
    op("put", put, C(M, I([0, 7, -1]), T(3)), C(M, I([1, 1]), T(2), accumulate=True)),
]  # fmt: skip

SCATTER = [
    op("scatter", scatter, C(M, 0, GRID, T(2, 3)), C(M, 1, I([[0], [4], [2]]), T(3, 1)),
       C(M, 1, I([[0], [4], [2]]), 2), C(M, 0, GRID, T(2, 3), reduce="add"),
       C(M, 0, GRID, T(2, 3), reduce="multiply")),
    op("scatter_add", lambda x, d, i, s: scatter_with(
        x, d, i, s, np.logical_or if x.dtype == bool else np.add),
       C(M, 0, GRID, T(2, 3)), C(M, 1, GRID, T(2, 3)), C(M, 0, I([[]]), T(1, 0))),
    op("scatter_reduce", scatter_reduce, *[
        C(M, d, GRID, T(2, 3), reduce=r, include_self=s)
        for r in ("sum", "prod", "mean", "amax", "amin") for d, s in ((0, True), (1, False))
    ], slack=2),
    op("index_add", index_add, C(M, 0, ROWIDX, M), C(M, 1, I([4, 0]), T(3, 2)),
       C(M, 0, ROWIDX, M, alpha=2)),
    op("index_copy", index_with(lambda a, b: b), C(M, 0, I([2, 0]), T(2, 5)), C(M, 1, I([4]),
       T(3, 1))),
    op("index_fill", index_with(lambda a, b: b), C(M, 0, I([2, 0]), 2), C(M, 1, I([4]), 1)),
    op("index_reduce", index_reduce, *[
        C(M, 0, ROWIDX, M, r, include_self=s) for r in ("prod", "mean", "amax", "amin")
        for s in (True, False)], slack=2, grad=False),
    op("masked_fill", masked_fill, C(M, MASK, 2), C(M, T(5, dtype="bool"), 1), C(T(0, 2), V(
        [True, False], dtype="bool"), 1), C(M, MASK, T())),
    op("masked_scatter", masked_scatter, C(M, MASK, T(15)), C(M, T(5, dtype="bool"), T(15))),
    op("select_scatter", lambda x, p, d, i: placed(x, p, (slice(None),) * d + (i,)),
       C(M, T(5), 0, 1), C(M, T(3), 1, -1)),
    op("slice_scatter", lambda x, p, dim=0, start=None, end=None, step=1: placed(
        x, p, (slice(None),) * dim + (slice(start, end, step),)),
       C(M, T(2, 5), 0, 1, 3), C(M, T(3, 2), 1, 0, 4, 2)),
    op("diagonal_scatter", lambda x, p, offset=0: placed(
        x, p, (np.arange(len(p)), np.arange(len(p)) + offset)), C(M, T(3)), C(M, T(3), 1)),
    op("fill_diagonal_", fill_diagonal, C(M, 2), C(T(4, 2), 1, True), grad=False),
    op("fill", lambda x, v: np.full_like(x, v), C(M, 2), C(T(), 1), C(T(0, 2), 1)),
    op("zero_", np.zeros_like, C(M), C(T()), C(T(0, 2)), grad=False),
    op("copy_", lambda x, y: np.broadcast_to(y, x.shape), C(M, M), C(M, T(5)), C(M, T()),
       C(T(2, 3), V([1, 0, 3], dtype="int32"))),
]  # fmt: skip

SORTING = [
    op("sort", sort, C(D), C(D, 0), C(D, 1, True), C(T()), C(T(0, 3)),
       no_grad(C(V([2, 1, 2, 1]), stable=True)),
       no_grad(C(V([3, 1, 3, 1]), dim=0, descending=True, stable=True)),
           C(T(120, distinct=True, lo=0), stable=True)),
    op("argsort", argsort, C(D), C(D, 0), C(D, 1, True), C(V([2, 1, 2, 1]), stable=True)),
    op("msort", lambda x: np.sort(x, axis=0), C(D), C(T(0, 3))),
    op("topk", topk, C(D, 2), C(D, 3, 0), C(D, 2, 1, False), C(T(5, distinct=True, lo=0), 5),
       C(D, 0)),
    op("unique", unique, C(V([3, 1, 2, 1])), C(V([[1, 2], [2, 0]]), return_inverse=True),
       C(V([3, 1, 1]), return_counts=True), C(V([[1, 2], [1, 2], [0, 1]]), dim=0), meta=False),
    op("unique_consecutive", unique_consecutive, C(V([1, 1, 2, 2, 1])),
       C(V([1, 1, 2]), return_inverse=True, return_counts=True), meta=False),
    op("searchsorted", searchsorted, C(V([1, 3, 5]), V([0, 3, 9])), C(V([1, 3, 5]), V([3]),
       right=True),
       C(V([[1, 3], [2, 4]]), V([[2, 3], [2, 9]])), C(V([1, 3]), T(0)),
       C(V([1, 3, 5]), V([3]), side="right"), C(V([1, 3, 5]), V([3]), out_int32=True)),
    op("bucketize", lambda v, b, right=False, out_int32=False: searchsorted(b, v, right),
       C(V([0, 3, 9]), V([1, 3, 5])), C(V([[3]]), V([1, 3, 5]), right=True)),
    op("isin", lambda a, b, invert=False: np.isin(a, b, invert=invert), C(V([1, 2, 3]), V([3, 1])),
       C(V([[1, 2]]), V([2]), invert=True), C(T(0), V([2]))),
    op("bincount", bincount, C(V([1, 0, 1, 3])), C(V([1, 0, 1]), minlength=5),
       C(V([1, 0, 1]), weights=V([0.5, 1.0, 2.0], dtype="float64")), meta=False),
    op("histc", histc, C(T(20), 4, -3, 3), C(T(20), 5), grad=False, meta=False,
       dtypes=("float32", "float64")),
    op("histogram", lambda x, b, range=None: np.histogram(x, b, range), C(T(20),
       4, range=(-3.0, 3.0)),
       layouts=False, meta=False, slack=2),
]  # fmt: skip

ROWS = GATHER + SCATTER + SORTING
