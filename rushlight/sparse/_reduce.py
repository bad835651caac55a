"""Sums, softmax and norms of sparse tensors."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.sparse._convert import add_up, coalesce, keys_of, to_coo, to_sparse
from rushlight.sparse._shapes import unsqueeze, wrapped
from rushlight.sparse._tensor import COO, CSC, CSR, NAMES, SparseTensor, make, with_values

_LARGEST, _SMALLEST = "amax amin".split()  # what index_reduce calls them


def _dims(name, x, dim):
    dims = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [wrapped(name, d, x.dim()) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: a dim appears twice in {dims}")
    return sorted(dims) or list(range(x.dim()))


def sum(
    x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, widens: bool = True
) -> Tensor:
    """The sum over some dims, or all. It is sparse as long as a sparse dim is left. Integers become
    int64, but not (`widens`) where only sparse dims are summed over, and one is left."""
    if not isinstance(x, SparseTensor):
        return x.sum(dtype=dtype) if dim is None else x.sum(dim, keepdim, dtype=dtype)
    dims = _dims("sum", x, dim)
    layout = x._layout
    coo = to_coo(x)
    n = coo.sparse_dim()
    if len(dims) == x.dim():
        total = coo._vals.sum(dtype=dtype)
        return total.reshape((1,) * x.dim()) if keepdim else total
    dense = [d - n + 1 for d in dims if d >= n]
    gone = [d for d in dims if d < n]
    values = coo._vals
    if dense:
        values = values.sum(dense, dtype=dtype)
    elif dtype is not None:
        values = values.to(dtype)
    elif widens and not values.is_floating_point() and not values.is_complex():
        values = values.long()
    if len(gone) == n:
        found: Any = values.sum(0)
    else:
        kept = [d for d in range(n) if d not in gone]
        size = [s for d, s in enumerate(x.shape) if d not in dims]
        indices = coo._parts[0][kept] if gone else coo._parts[0]
        found = coalesce(make(COO, (indices,), values, size, coo._sorted and not gone))
    if keepdim:
        for d in dims:
            found = unsqueeze(found, d) if isinstance(found, SparseTensor) else found.unsqueeze(d)
        if layout in (CSR, CSC) and isinstance(found, SparseTensor):
            found = to_sparse(found, layout=layout)
    return found


def _groups(x, dim):
    """Which elements lie on one line along a sparse dim: a number for each, and how many lines."""
    indices = x._parts[0]
    others = [d for d in range(indices.shape[0]) if d != dim]
    if not others:
        return indices.new_zeros(indices.shape[1]), 1
    keys = keys_of(indices[others], [x.shape[d] for d in others])
    lines, which = keys.unique(return_inverse=True)
    return which, lines.shape[0]


def _softmax(name, input, dim, dtype, log):
    if not isinstance(input, SparseTensor):
        function = _C.log_softmax if log else _C.softmax
        return function(input, dim, dtype=dtype)
    if input._layout is not COO:
        raise NotImplementedError(f"{name}: expected layout sparse_coo, got {NAMES[input._layout]}")
    at = wrapped(name, dim, input.dim())
    x = coalesce(input)
    values = x._vals if dtype is None else x._vals.to(dtype)
    if not values.is_floating_point():
        raise _C.DTypeError(f"{name}: expected a floating dtype, got {values.dtype}")
    n = x.sparse_dim()
    if at >= n:
        run = _C.log_softmax if log else _C.softmax
        return with_values(x, run(values, at - n + 1))
    if values.shape[0] == 0:
        return with_values(x, values)
    which, count = _groups(x, at)
    lowest = values.new_full((count, *values.shape[1:]), -float("inf"))
    top = lowest.index_reduce(0, which, values.detach(), _LARGEST)
    top = _C.where(top.isneginf(), _C.zeros_like(top), top).index_select(0, which)
    shifted = values - top
    parts = shifted.exp()
    totals = add_up(parts, which, count)
    if log:
        return with_values(x, shifted - totals.log().index_select(0, which))
    return with_values(x, parts / totals.index_select(0, which))


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along a dim, over the elements that are there: the others count as minus infinity."""
    return _softmax("softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax along a dim, over the elements that are there."""
    return _softmax("log_softmax", input, dim, dtype, True)


def norm(x: SparseTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *,
         dtype: Any = None) -> Tensor:  # fmt: skip
    """The norm of all elements."""
    if dim is not None and len(_dims("norm", x, dim)) != x.dim():
        raise NotImplementedError("norm: of a sparse tensor only over all dims")
    values = coalesce(x)._vals if x._layout is COO else x._vals
    found = values.reshape(-1).norm(2 if p in ("fro", None) else p, dtype=dtype)
    return found.reshape((1,) * x.dim()) if keepdim else found
