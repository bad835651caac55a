"""Views, shape, joining and splitting."""

import numpy as np

from ops.sample import C, OpSample, T, V


def shape(name, ref, *calls, **kw):
    return OpSample(name, ref, list(calls), **kw)


def permute(x, *dims):
    return np.transpose(x, dims[0] if isinstance(dims[0], (tuple, list)) else dims)


def sizes(s):
    return s[0] if len(s) == 1 and isinstance(s[0], (tuple, list)) else s


def expand(x, *s):
    s = sizes(s)
    lead = len(s) - x.ndim
    return np.broadcast_to(x, [x.shape[i - lead] if n == -1 else n for i, n in enumerate(s)])


def squeeze(x, dim=None):
    if dim is None:
        return x.squeeze()
    dims = [d % max(x.ndim, 1) for d in (dim if isinstance(dim, tuple) else (dim,))]
    return x.squeeze(tuple(d for d in dims if x.ndim and x.shape[d] == 1))


def flatten(x, start_dim=0, end_dim=-1):
    if x.ndim == 0:
        return x.reshape(1)
    a, b = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape((*x.shape[:a], int(np.prod(x.shape[a : b + 1])), *x.shape[b + 1 :]))


def unflatten(x, dim, s):
    dim %= x.ndim
    return x.reshape(x.shape[:dim] + tuple(s) + x.shape[dim + 1 :])


def narrow(x, dim, start, length):
    return np.take(x, np.arange(start, start + length), axis=dim)


def split(x, size, dim=0):
    n = x.shape[dim]
    if isinstance(size, int):
        ends = list(range(size, n, size))
    else:
        ends = list(np.cumsum(size)[:-1])
    return np.split(x, ends, axis=dim)


def chunk(x, n, dim=0):
    return split(x, max(1, -(-x.shape[dim] // n)), dim)


def unbind(x, dim=0):
    return [np.take(x, i, axis=dim) for i in range(x.shape[dim])]


def unfold(x, dim, size, step):
    starts = range(0, x.shape[dim] - size + 1, step)
    parts = [np.moveaxis(narrow(x, dim, s, size), dim, -1) for s in starts]
    return np.stack(parts, axis=dim)


def as_strided(x, size, stride, offset=0):
    flat = x.ravel()[offset:]
    steps = [s * x.itemsize for s in stride]
    return np.lib.stride_tricks.as_strided(flat, size, steps)


def roll(x, shifts, dims=None):
    return np.roll(x, shifts, dims)


def pad(x, pads, mode="constant", value=0):
    widths = [(0, 0)] * (x.ndim - len(pads) // 2)
    widths += [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    if mode == "constant":
        return np.pad(x, widths, constant_values=value or 0)
    return np.pad(x, widths, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def diagonal_scatter_like(x, offset=0, dim1=-2, dim2=-1):
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def block_diag(*xs):
    xs = [np.atleast_2d(x) for x in xs]
    kind = np.result_type(*xs)
    out = np.zeros((sum(x.shape[0] for x in xs), sum(x.shape[1] for x in xs)), kind)
    r = c = 0
    for x in xs:
        out[r : r + x.shape[0], c : c + x.shape[1]] = x
        r, c = r + x.shape[0], c + x.shape[1]
    return out


def repeat_interleave(x, n, dim=None):
    return np.repeat(x, n, axis=dim)


def tensor_split(x, n, dim=0):
    return np.array_split(x, n, axis=dim)


def meshgrid(*xs, indexing="ij"):
    xs = xs[0] if isinstance(xs[0], (list, tuple)) else xs
    return np.meshgrid(*xs, indexing=indexing)


def cat(xs, dim=0):
    return np.concatenate([x for x in xs if x.shape != (0,)], axis=dim)


def vander(x, n=None, increasing=False):
    return np.vander(x, n, increasing)


def sum_to_size(x, *s):
    lead = tuple(range(x.ndim - len(s)))
    x = x.sum(lead) if lead else x
    ones = tuple(i for i, n in enumerate(s) if n == 1 and x.shape[i] != 1)
    return x.sum(ones, keepdims=True) if ones else x


def resized(x, *s):
    return x.ravel()[: int(np.prod(s))].reshape(s)


M, K = T(3, 5), T(2, 3, 4, 5)

VIEWS = [
    shape("view", lambda x, *s: x.reshape(*s), C(T(3, 4), 2, 6), C(T(3, 4), -1), C(T(), 1),
          C(T(0, 4), (4, 0)), C(K, 6, -1), layouts=False),
    shape("view_as", lambda x, y: x.reshape(y.shape), C(T(3, 4), T(6, 2)), layouts=False),
    shape("reshape", lambda x, *s: x.reshape(*s), C(T(3, 4), (2, 6)), C(K, (6, -1)), C(T(), (1,)),
          C(T(0, 4), (2, 0, 3))),
    shape("reshape_as", lambda x, y: x.reshape(y.shape), C(T(3, 4), T(6, 2))),
    shape("permute", permute, C(T(2, 3, 4), (2, 0, 1)), C(K, (0, -1, 1, 2)), C(T(), ())),
    shape("transpose", np.swapaxes, C(M, 0, 1), C(K, 1, -1), aliases=("swapdims",)),
    shape("swapaxes", np.swapaxes, C(M, 0, 1), C(K, 1, -1)),
    shape("t", lambda x: x.T, C(M), C(T(4)), C(T())),
    shape("adjoint", lambda x: np.conj(np.swapaxes(x, -1, -2)), C(M), C(T(2, 3, 4))),
    shape("movedim", np.moveaxis, C(K, 0, -1), C(K, (0, 1), (2, 3)), aliases=("moveaxis",)),
    shape("expand", expand, C(T(3, 1), 3, 4), C(T(3, 1), 2, -1, 4), C(T(), 2), C(T(1, 0), 5, 0)),
    shape("expand_as", lambda x, y: np.broadcast_to(x, y.shape), C(T(3, 1), T(2, 3, 4))),
    shape("broadcast_to", np.broadcast_to, C(T(3, 1), (2, 3, 4)), C(T(), (2,))),
    shape("unsqueeze", np.expand_dims, C(M, 0), C(M, -1), C(T(), 0), C(T(0, 2), 1)),
    shape("squeeze", squeeze, C(T(1, 3, 1)), C(T(1, 3, 1), 0), C(T(1, 3, 1), 1), C(T()),
          C(T(1, 3, 1), (0, 2)), C(T(1, 0), -2)),
    shape("flatten", flatten, C(K), C(K, 1), C(K, 1, 2), C(T()), C(T(0, 2))),
    shape("unflatten", unflatten, C(T(3, 12), 1, (3, 4)), C(T(6, 2), 0, (2, 3))),
    shape("ravel", np.ravel, C(K), C(T()), C(T(0, 2))),
    shape("narrow", narrow, C(M, 1, 1, 3), C(K, -2, 2, 1), C(M, 0, 1, 0)),
    shape("select", lambda x, d, i: np.take(x, i, axis=d), C(M, 0, 1), C(K, -1, -2)),
    shape("split", split, C(T(7, 2), 3), C(M, 2, 1), C(M, [1, 4], 1), C(T(0, 2), 1)),
    shape("split_with_sizes", split, C(M, [1, 4], 1), C(T(6), [1, 2, 3])),
    shape("chunk", chunk, C(T(7, 2), 3), C(M, 2, 1), C(T(4), 8)),
    shape("tensor_split", tensor_split, C(T(7, 2), 3), C(M, (1, 3), 1), C(T(4), 6)),
    shape("hsplit", np.hsplit, C(T(4, 6), 2), C(T(6), 3)),
    shape("vsplit", np.vsplit, C(T(4, 6), 2)),
    shape("dsplit", np.dsplit, C(T(2, 3, 6), 2)),
    shape("unbind", unbind, C(M), C(M, 1), C(K, -2), C(T(3, 0))),
    shape("unfold", unfold, C(T(7), 0, 3, 2), C(T(3, 6), 1, 2, 1), layouts=True),
    shape("as_strided", as_strided, C(T(3, 4), (2, 3), (1, 2)), C(T(9), (3, 3), (1, 1), 2),
          layouts=False),
    shape("diagonal", lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
          C(M), C(M, 1), C(K, -1, 1, 3), C(T(0, 3))),
    shape("view_as_real", lambda x: np.stack([x.real, x.imag], -1), C(M), C(T()), C(T(0, 2))),
    shape("view_as_complex", lambda x: x[..., 0] + 1j * x[..., 1], C(T(3, 2)), C(T(2)),
          C(T(2, 3, 2)), layouts=False),
    shape("atleast_1d", np.atleast_1d, C(T()), C(M)),
    shape("atleast_2d", np.atleast_2d, C(T()), C(T(3)), C(K)),
    shape("atleast_3d", np.atleast_3d, C(T()), C(T(3)), C(M)),
    shape("broadcast_tensors", lambda *x: list(np.broadcast_arrays(*x)), C(T(3, 1), T(4)),
          C(T(), T(2))),
    shape("meshgrid", meshgrid, C(T(3), T(4), indexing="ij"), C(T(3), T(2), indexing="xy")),
]  # fmt: skip

QUESTIONS = [
    shape("numel", lambda x: x.size, C(M), C(T()), C(T(0, 2))),
    shape("is_same_size", lambda a, b: a.shape == b.shape, C(M, M), C(M, T(5, 3))),
    shape("is_signed", lambda x: True, C(M), dtypes=("float32", "int8")),
    shape("is_floating_point", lambda x: True, C(M), dtypes=("float32", "float64")),
    shape("is_complex", lambda x: False, C(M), dtypes=("float32", "int64")),
]

COPIES = [
    shape("sum_to_size", sum_to_size, C(M, 1, 5), C(T(2, 3, 4), 3, 1), C(M, 3, 5), slack=4),
    shape("resize_", resized, C(M, 2, 3), C(M, 15), grad=False, layouts=False),
    shape("resize_as_", lambda x, y: resized(x, *y.shape), C(M, T(2, 3)), grad=False,
          layouts=False),
    shape("type_as", lambda x, y: x, C(M, T(2))),
    shape("constant_pad_nd", lambda x, p, v=0: pad(x, p, "constant", v), C(M, (1, 2)),
          C(M, (1, 0, 2, 1), 1)),
    shape("unravel_index", lambda i, s: np.unravel_index(i, s),
          C(V([0, 5, 11], dtype="int64"), (3, 4)), dtypes=("int64",), meta=False),
    shape("repeat", lambda x, *r: np.tile(x, r), C(M, 2, 3), C(T(3), 2, 1, 2), C(T(), 3),
          C(M, 0, 1)),
    shape("tile", np.tile, C(M, (2,)), C(T(3), (2, 2)), C(T(), (3,))),
    shape("repeat_interleave", repeat_interleave, C(M, 2), C(M, 3, 1),
          C(T(3, 2), V([1, 0, 2], dtype="int64"), 0), meta=False),
    shape("flip", lambda x, d: np.flip(x, d), C(M, (0,)), C(K, (1, -1)), C(T(0, 3), (0,))),
    shape("fliplr", np.fliplr, C(M)),
    shape("flipud", np.flipud, C(M)),
    shape("rot90", lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims), C(M), C(M, 2),
         C(K, -1, (1, 2))),
    shape("roll", roll, C(M, 2), C(M, 1, 1), C(K, (1, -1), (0, 2)), C(T(0, 3), 1)),
    shape("tril", np.tril, C(M), C(M, 1), C(T(2, 4, 4), -1), C(T(0, 3))),
    shape("triu", np.triu, C(M), C(M, 1), C(T(2, 4, 4), -1), C(T(0, 3))),
    shape("diag", np.diag, C(T(3)), C(T(3), 1), C(M), C(M, -1)),
    shape("diagflat", np.diagflat, C(T(3)), C(T(2, 2), 1)),
    shape("diag_embed", diagonal_scatter_like, C(T(3)), C(T(2, 3), 1), C(T(2, 3), 0, 0, 2)),
    shape("nn.functional.pad", pad, C(M, (1, 2)), C(M, (1, 2, 0, 1), "constant", 2.0),
          C(T(1, 2, 4), (1, 1), "reflect"), C(T(1, 2, 4), (2, 1), "replicate"),
          C(T(1, 2, 4), (2, 1), "circular"),
          C(T(2, 3), (0, 0, 1, 1))),
    shape("vander", vander, C(T(4)), C(T(3), 4), C(T(3), increasing=True),
         slack=8, peer_bugs=("grad",)),
    shape("cartesian_prod", lambda a, b: np.stack(np.meshgrid(a, b, indexing="ij"), -1).reshape(
        -1, 2), C(T(2), T(3))),
    shape("combinations", lambda x: np.array([[x[i], x[j]] for i in range(len(x))
                                              for j in range(i + 1, len(x))]), C(T(4)),
          meta=False),
]  # fmt: skip

JOINING = [
    shape("cat", cat, C([M, T(2, 5)]), C([M, T(3, 1)], 1), C([T(0, 5), M]), C([T(0), M]),
          C([K, K], -1), aliases=("concat", "concatenate")),
    shape("stack", lambda xs, dim=0: np.stack(xs, dim), C([M, M]), C([M, M], 1), C([T(), T()]),
          C([K, K], -1), C([T(0, 2)])),
    shape("hstack", np.hstack, C([M, T(3, 1)]), C([T(2), T(3)])),
    shape("vstack", np.vstack, C([M, T(2, 5)]), C([T(2), T(2)]), aliases=("row_stack",)),
    shape("dstack", np.dstack, C([M, M]), C([T(2), T(2)])),
    shape("column_stack", np.column_stack, C([T(3), T(3, 2)])),
    shape("block_diag", block_diag, C(T(2, 3), T(1, 2)), C(T(2), T())),
]  # fmt: skip

ROWS = VIEWS + QUESTIONS + COPIES + JOINING
