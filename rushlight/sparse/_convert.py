"""From dense to sparse and back, from one layout to another, and indices brought into order."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.sparse._create import block_size
from rushlight.sparse._tensor import (
    BLOCK_LAYOUTS,
    BSC,
    BSR,
    COO,
    CSC,
    CSR,
    NAMES,
    ROW_LAYOUTS,
    SparseTensor,
    make,
    replace,
)


def numbers(n: int, like: Tensor) -> Tensor:
    """0 to n - 1."""
    return _C.arange(n, dtype=_C.int64, device=like.device)


def bounds_of(rows: Tensor, size: int) -> Tensor:
    """Where each of `size` rows begins and ends in a sorted list of row numbers."""
    if rows.is_cuda:  # to count would wait for the GPU
        return _C.searchsorted(rows.contiguous(), numbers(size + 1, rows))
    first = _C.zeros(1, dtype=_C.int64, device=rows.device)
    return _C.cat((first, _C.bincount(rows, minlength=size).cumsum(0)))


def groups_of(compressed: Tensor) -> Tensor:
    """The row of each element, of compressed row indices."""
    rows = numbers(compressed.shape[0] - 1, compressed)
    return rows.repeat_interleave(compressed.long().diff())


def keys_of(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """One number per element that orders the indices as they are ordered row by row."""
    if indices.shape[0] == 1:
        return indices[0]
    keys = _C.zeros(indices.shape[1], dtype=_C.int64, device=indices.device)
    total = 1
    for n in sizes:
        total *= max(n, 1)
    if total >= 2**63:
        raise RuntimeError(
            f"sparse tensor: sizes {list(sizes)} have too many places to be numbered in 64 bits"
        )
    for row, n in zip(indices, sizes, strict=True):
        keys = keys * n + row
    return keys


def indices_of(keys: Tensor, sizes: Sequence[int]) -> Tensor:
    """The inverse of keys_of."""
    rows = []
    for n in reversed(sizes):
        rows.append(keys % n if n else keys)
        keys = keys // n if n else keys
    return _C.stack(rows[::-1]) if rows else keys.new_empty((0, keys.shape[0]))


def merged(x: Tensor, n: int) -> Tensor:
    """A strided tensor with its first n dims made one."""
    return x.reshape(math.prod(x.shape[:n]), *x.shape[n:])


def add_up(values: Tensor, places: Tensor, count: int) -> Tensor:
    """Values that have the same place, added; `count` places."""
    shape = (count, *values.shape[1:])
    if values.dtype == _C.bool:
        sums = _C.zeros(shape, dtype=_C.int64, device=values.device)
        return sums.index_add(0, places, values.long()) != 0
    return _C.zeros(shape, dtype=values.dtype, device=values.device).index_add(0, places, values)


def coalesce(x: SparseTensor) -> SparseTensor:
    """The tensor with its indices in order, each there once."""
    if x._layout is not COO:
        raise RuntimeError(
            f"coalesce: expected a tensor of layout sparse_coo, got {NAMES[x._layout]}"
        )
    if x._sorted:
        return x
    indices, values = x._parts[0], x._vals
    keys = keys_of(indices, x.shape[: indices.shape[0]])
    step = keys.diff().min().item() if keys.shape[0] > 1 else 1  # the smallest of them
    if step > 0:
        values = values.view_as(values) if values.requires_grad else values  # no leaf any more
        return make(COO, (indices,), values, x.shape, True)
    if step < 0:
        keys, order = keys.sort(stable=True)
        indices, values = indices.index_select(1, order), values.index_select(0, order)
    fresh = _C.ones(keys.shape, dtype=_C.bool, device=keys.device)
    fresh[1:] = keys[1:] != keys[:-1]
    first = fresh.nonzero().squeeze(1)
    if first.shape[0] < keys.shape[0]:
        values = add_up(values, fresh.cumsum(0) - 1, first.shape[0])
        indices = indices.index_select(1, first)
    return make(COO, (indices,), values, x.shape, True)


def _coo_to_dense(indices, values, size):
    places = size[: indices.shape[0]]
    return add_up(values, keys_of(indices, places), math.prod(places)).reshape(tuple(size))


def to_coo(x: SparseTensor) -> SparseTensor:
    """Any sparse tensor as sparse_coo; of blocks each element gets an index."""
    if x._layout is COO:
        return x
    compressed, plain = x._parts
    long, short = groups_of(compressed), plain.long()
    rows, columns = (long, short) if x._layout in ROW_LAYOUTS else (short, long)
    values = x._vals
    if x._layout in BLOCK_LAYOUTS:
        high, wide = block_size(x._layout, values)
        down, right = numbers(high, plain), numbers(wide, plain)
        rows = (rows[:, None, None] * high + down[:, None]).expand(-1, -1, wide).reshape(-1)
        columns = (columns[:, None, None] * wide + right).expand(-1, high, -1).reshape(-1)
        values = merged(values, 3)
    ordered = x._layout is CSR and _is_ordered(x)
    return make(COO, (_C.stack((rows, columns)),), values, x.shape, ordered)


def _is_ordered(x):
    """Are the columns of each row in order, and each there once?"""
    compressed, plain = x._parts
    if plain.shape[0] < 2:
        return True
    starts = _C.zeros(plain.shape[0] + 1, dtype=_C.bool, device=plain.device)
    starts[compressed.long()] = True
    return bool(((plain[1:] > plain[:-1]) | starts[1:-1]).all())


def to_dense(x: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """A strided tensor of the same values."""
    if not isinstance(x, SparseTensor):
        return x if dtype is None else x.to(dtype)
    if x._layout in BLOCK_LAYOUTS:
        dense = _blocks_to_dense(x)
    else:
        coo = to_coo(x)
        dense = _coo_to_dense(coo._parts[0], coo._vals, x.shape)
    return dense if dtype is None else dense.to(dtype)


def _blocks_to_dense(x):
    (compressed, plain), values = x._parts, x._vals
    high, wide = block_size(x._layout, values)
    rows, columns = x.shape[0] // high, x.shape[1] // wide
    long, short = groups_of(compressed), plain.long()
    at = long * columns + short if x._layout is BSR else short * columns + long
    grid = add_up(values, at, rows * columns).reshape(rows, columns, *values.shape[1:])
    return grid.transpose(1, 2).reshape(tuple(x.shape))


def from_dense(x: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """The nonzero elements (or slices, with fewer sparse dims) of a strided tensor."""
    n = x.dim() if sparse_dim is None else sparse_dim
    if not 0 <= n <= x.dim() or (n == 0 and x.dim() > 0):
        raise RuntimeError(f"to_sparse: sparse_dim must be between 1 and {x.dim()}, got {n}")
    if x.dim() == 0:
        filled = bool(x.detach() != 0)
        values = x.reshape(1)[: int(filled)]
        return make(COO, (_C.zeros(0, int(filled), dtype=_C.int64, device=x.device),), values, (),
                    True)  # fmt: skip
    seen = x.detach() != 0
    if n < x.dim():
        seen = seen.flatten(n).any(-1)
    keys = seen.reshape(-1).nonzero().squeeze(1)
    values = merged(x, n).index_select(0, keys)
    return make(COO, (indices_of(keys, x.shape[:n]),), values, x.shape, True)


def _compressed(name, layout, coo):
    """A matrix of layout sparse_coo as CSR or CSC."""
    if coo._parts[0].shape[0] != 2:
        raise RuntimeError(f"{name}: a matrix is needed, got sizes {list(coo.shape)} with "
                           f"{coo._parts[0].shape[0]} sparse dims")  # fmt: skip
    coo = coalesce(coo)
    (rows, columns), values = coo._parts[0], coo._vals
    if layout is CSR:
        parts = bounds_of(rows, coo.shape[0]), columns.contiguous()
        return make(CSR, parts, values, coo.shape)
    columns, order = columns.sort(stable=True)
    parts = bounds_of(columns, coo.shape[1]), rows.index_select(0, order)
    return make(CSC, parts, values.index_select(0, order), coo.shape)


def _blocked(name, layout, x, blocksize):
    """A matrix as BSR or BSC: the blocks that have an element."""
    if blocksize is None:
        raise RuntimeError(f"{name}: blocksize is missing: a tuple of the rows and columns of one "
                           "block")  # fmt: skip
    given = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)
    if len(given) != 2:
        raise RuntimeError(f"{name}: blocksize must be the rows and columns of one block, got "
                           f"{given}")  # fmt: skip
    high, wide = (operator.index(b) for b in given)
    if high < 1 or wide < 1 or x.shape[0] % high or x.shape[1] % wide:
        raise RuntimeError(f"{name}: sizes {list(x.shape)} are no multiple of the blocks, "
                           f"{(high, wide)}")  # fmt: skip
    grid = (x.shape[0] // high, x.shape[1] // wide)
    if isinstance(x, SparseTensor):
        coo = coalesce(to_coo(x))
        rows, columns = coo._parts[0]
        at = (rows // high) * grid[1] + columns // wide
        keys, which = at.unique(return_inverse=True)
        inside = (which * high + rows % high) * wide + columns % wide
        values = add_up(coo._vals, inside, keys.shape[0] * high * wide)
        values = values.reshape(keys.shape[0], high, wide, *x.shape[2:])
    else:
        blocks = x.reshape(grid[0], high, grid[1], wide, *x.shape[2:]).transpose(1, 2)
        blocks = blocks.reshape(grid[0] * grid[1], high, wide, *x.shape[2:])
        keys = (blocks.detach() != 0).flatten(1).any(1).nonzero().squeeze(1)
        values = blocks.index_select(0, keys)
    rows, columns = keys // max(grid[1], 1), keys % max(grid[1], 1)
    if layout is BSR:
        return make(BSR, (bounds_of(rows, grid[0]), columns), values, x.shape)
    columns, order = columns.sort(stable=True)
    parts = bounds_of(columns, grid[1]), rows.index_select(0, order)
    return make(BSC, parts, values.index_select(0, order), x.shape)


def to_sparse(
    x: Any, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:  # fmt: skip
    """The tensor in a sparse layout: sparse_coo, unless another one is given."""
    if sparse_dim is not None and (layout is not None or blocksize is not None):
        raise RuntimeError("to_sparse: sparse_dim does not go with layout or blocksize")
    layout = COO if layout is None else layout
    if layout is _C.strided:
        return to_dense(x)
    if layout not in NAMES:
        raise RuntimeError(f"to_sparse: {layout} is no sparse layout")
    name = "to_sparse" if layout is COO else "to_" + NAMES[layout]
    if blocksize is not None and layout not in BLOCK_LAYOUTS:
        raise RuntimeError(f"{name}: blocksize is for the layouts sparse_bsr and sparse_bsc")
    sparse = isinstance(x, SparseTensor)
    if dense_dim is not None and not sparse:
        if layout is COO:
            sparse_dim = x.dim() - dense_dim
        elif x.dim() - dense_dim != 2:
            raise RuntimeError(f"{name}: a matrix is needed, got sizes {list(x.shape)} with "
                               f"{dense_dim} dense dims")  # fmt: skip
    if sparse and layout is x._layout and layout not in BLOCK_LAYOUTS:
        if sparse_dim is not None and sparse_dim != x.sparse_dim():
            raise RuntimeError(f"to_sparse: the tensor has {x.sparse_dim()} sparse dims and cannot "
                               f"get {sparse_dim}")  # fmt: skip
        return x
    if layout is COO:
        return to_coo(x) if sparse else from_dense(x, sparse_dim)
    dense_dims = x.dense_dim() if sparse else (dense_dim or 0)
    if x.dim() - dense_dims != 2:
        raise RuntimeError(
            f"{name}: a matrix is needed, got sizes {list(x.shape)}"
            + ("; batches of them are not there" if x.dim() > 2 else "")
        )
    if layout in BLOCK_LAYOUTS:
        return _blocked(name, layout, x, blocksize)
    return _compressed(name, layout, to_coo(x) if sparse else from_dense(x, 2))


def sparse_mask(x: Tensor, mask: SparseTensor) -> SparseTensor:
    """The values of x at the places of a sparse tensor."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask: the mask must be a sparse tensor")
    if tuple(x.shape) != tuple(mask.shape):
        raise RuntimeError(f"sparse_mask: sizes {list(x.shape)} and those of the mask, "
                           f"{list(mask.shape)}, differ")  # fmt: skip
    where = to_coo(mask)
    indices = where._parts[0]
    if isinstance(x, SparseTensor):
        mine = coalesce(to_coo(x))
        values = _picked(mine, keys_of(indices, x.shape[: indices.shape[0]]))
    else:
        n = indices.shape[0]
        keys = keys_of(indices, x.shape[:n])
        values = merged(x, n).index_select(0, keys)
    if mask._layout is not COO:
        values = values.reshape(mask._vals.shape)
    return make(mask._layout, mask._parts, values, mask.shape, mask._sorted)


def _picked(x, keys):
    """The values of a coalesced tensor at some places; zeros where it has none."""
    own = keys_of(x._parts[0], x.shape[: x._parts[0].shape[0]])
    if own.shape[0] == 0:
        return _C.zeros((keys.shape[0], *x._vals.shape[1:]), dtype=x.dtype, device=x.device)
    at = _C.searchsorted(own, keys.contiguous()).clamp(max=own.shape[0] - 1)
    found = own.index_select(0, at) == keys
    values = x._vals.index_select(0, at)
    return values * found.reshape(-1, *(1,) * (values.dim() - 1)).to(values.dtype)


def resize(x: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int,
           clear: bool = False) -> SparseTensor:  # fmt: skip
    """Other sizes for a sparse_coo tensor, in place."""
    size = tuple(size)
    if x._layout is not COO or sparse_dim + dense_dim != len(size):
        raise RuntimeError(f"sparse_resize_: {sparse_dim} sparse and {dense_dim} dense dims do not "
                           f"make size {list(size)}")  # fmt: skip
    nnz = 0 if clear else x._nnz()
    if nnz and (sparse_dim, dense_dim) != (x.sparse_dim(), x.dense_dim()):
        raise RuntimeError("sparse_resize_: a tensor with elements keeps its numbers of sparse and "
                           "dense dims; sparse_resize_and_clear_ takes any")  # fmt: skip
    if nnz and any(new < old for new, old in zip(size, x.shape, strict=True)):
        raise RuntimeError(f"sparse_resize_: a tensor with elements cannot shrink, from "
                           f"{list(x.shape)} to {list(size)}")  # fmt: skip
    if nnz:
        values, indices = x._vals.detach(), x._parts[0]
        if tuple(size[sparse_dim:]) != tuple(values.shape[1:]):
            wide = values.new_zeros((nnz, *size[sparse_dim:]))
            wide[tuple(slice(0, n) for n in values.shape)] = values
            values = wide
    else:
        indices = _C.empty(sparse_dim, 0, dtype=_C.int64, device=x.device)
        values = _C.empty((0, *size[sparse_dim:]), dtype=x.dtype, device=x.device)
    replace(x, (indices,), values, x._sorted or nnz == 0, size)
    return x
