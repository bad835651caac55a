"""Dims of sparse tensors exchanged, taken away and put together, and parts of them selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.sparse._convert import numbers, to_coo, to_sparse
from rushlight.sparse._tensor import (
    BSC,
    BSR,
    COO,
    CSC,
    CSR,
    NAMES,
    SparseTensor,
    make,
)

_TURNED = {CSR: CSC, CSC: CSR, BSR: BSC, BSC: BSR}


def wrapped(name: str, dim: int, dims: int) -> int:
    """A dim counted from the front."""
    if not -max(dims, 1) <= dim < max(dims, 1):
        raise IndexError(f"{name}: dim {dim} is out of range for {dims} dims")
    return dim % max(dims, 1)


def permute(x: SparseTensor, *each: Any, dims: Any = None) -> SparseTensor:
    """The dims in another order; sparse dims stay before dense ones."""
    order = dims if dims is not None else each
    order = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
    order = [wrapped("permute", d, x.dim()) for d in order]
    if sorted(order) != list(range(x.dim())):
        raise RuntimeError(f"permute: {order} does not name each of the {x.dim()} dims once")
    if order == sorted(order):
        return x
    n = x.sparse_dim()
    if any((d < n) != (k < n) for k, d in enumerate(order)):
        raise RuntimeError(
            f"permute: sparse dims (the first {n}) and dense dims cannot be exchanged"
        )
    size = [x.shape[d] for d in order]
    dense = [d - n for d in order[n:]]
    values = x._vals
    own = values.dim() - len(dense)  # dims of the values before the dense ones
    if x._layout is not COO and order[:2] != [0, 1]:
        layout = _TURNED[x._layout]
        if layout in (BSR, BSC):
            values = values.transpose(1, 2)
        parts: Any = x._parts
    else:
        layout = x._layout
        parts = (x._parts[0][order[:n]],) if layout is COO else x._parts
    if dense != sorted(dense):
        values = values.permute(*range(own), *(own + d for d in dense))
    ordered = x._sorted and order[:n] == sorted(order[:n])
    made = make(layout, parts, values, size, ordered)
    kept = x._rows
    if kept is not None and x.dim() == 2 and kept.versions == tuple(p._version for p in x._parts):
        made._rows = _with_versions(kept.turned(), tuple(p._version for p in made._parts))
    return made


def _with_versions(rows, versions):
    from rushlight.sparse._products import Rows

    same = Rows(rows.crow, rows.col, rows.order, rows.shape, versions)
    same._turned, same._which = rows.turned(), rows._which
    return same


def transpose(x: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Two dims exchanged."""
    a, b = wrapped("transpose", dim0, x.dim()), wrapped("transpose", dim1, x.dim())
    order = list(range(x.dim()))
    order[a], order[b] = b, a
    return permute(x, *order)


def t(x: SparseTensor) -> SparseTensor:
    """A matrix transposed."""
    if x.dim() > 2:
        raise RuntimeError(f"t: expected at most 2 dims, got {x.dim()}")
    return transpose(x, 0, 1) if x.dim() == 2 else x


def unsqueeze(x: SparseTensor, dim: int) -> SparseTensor:
    """A new dim of size 1."""
    at = wrapped("unsqueeze", dim, x.dim() + 1)
    x = _coo("unsqueeze", x)
    indices, values = x._parts[0], x._vals
    n = indices.shape[0]
    if at <= n:
        zeros = indices.new_zeros((1, indices.shape[1]))
        indices = _C.cat((indices[:at], zeros, indices[at:]))
    else:
        values = values.unsqueeze(at - n + 1)
    size = list(x.shape)
    size.insert(at, 1)
    return make(COO, (indices,), values, size, x._sorted)


def squeeze(x: SparseTensor, dim: Any = None) -> SparseTensor:
    """Without dims of size 1."""
    dims = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = sorted(d for d in (wrapped("squeeze", d, x.dim()) for d in dims) if x.shape[d] == 1)
    x = _coo("squeeze", x)
    indices, values = x._parts[0], x._vals
    n = indices.shape[0]
    if gone and len([d for d in gone if d < n]) == n:
        raise RuntimeError("squeeze: a sparse tensor keeps at least one sparse dim")
    for d in reversed(gone):
        if d >= n:
            values = values.squeeze(d - n + 1)
    kept = [d for d in range(n) if d not in gone]
    size = [s for d, s in enumerate(x.shape) if d not in gone]
    return make(COO, (indices[kept],), values, size, x._sorted)


def _coo(name, x):
    if x._layout is not COO:
        raise NotImplementedError(f"{name}: not there for layout {NAMES[x._layout]}; use "
                                  "to_sparse_coo() first")  # fmt: skip
    return x


def _taken(x, which, indices, size, ordered):
    """Some of the elements, under other indices."""
    return make(COO, (indices,), x._vals.index_select(0, which), size, ordered)


def select(x: SparseTensor, dim: int, index: int) -> Tensor:
    """The slice of one index along a dim."""
    if x.dim() == 0:
        raise IndexError("select: a 0-d tensor has no dims")
    at = wrapped("select", dim, x.dim())
    count = x.shape[at]
    index = int(index)
    if not -count <= index < count:
        raise IndexError(f"select: index {index} is out of range for dim {at} of size {count}")
    index %= count
    x = to_coo(x)
    indices, n = x._parts[0], x._parts[0].shape[0]
    size = [s for d, s in enumerate(x.shape) if d != at]
    if at >= n:
        return make(COO, (indices,), x._vals.select(at - n + 1, index), size, x._sorted)
    which = (indices[at] == index).nonzero().squeeze(1)
    if n == 1:  # nothing sparse is left
        values = x._vals.index_select(0, which)
        return values.sum(0).to(x.dtype) if x.dtype != _C.bool else values.any(0)
    kept = indices[[d for d in range(n) if d != at]].index_select(1, which)
    return _taken(x, which, kept, size, x._sorted)


def unbind(x: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along a dim."""
    return tuple(select(x, dim, i) for i in range(x.shape[wrapped("unbind", dim, x.dim())]))


def cut(x: SparseTensor, dim: int, begin: int, end: int, step: int = 1) -> SparseTensor:
    """The slices from begin up to end along a dim."""
    at = wrapped("slice", dim, x.dim())
    layout = x._layout
    x = to_coo(x)
    indices, n = x._parts[0], x._parts[0].shape[0]
    size = list(x.shape)
    size[at] = max(0, -(-(end - begin) // step))
    if at >= n:
        values = x._vals[(slice(None),) * (at - n + 1) + (slice(begin, end, step),)]
        return make(COO, (indices,), values, size, x._sorted)
    row = indices[at] - begin
    inside = (row >= 0) & (indices[at] < end)
    if step != 1:
        inside = inside & (row % step == 0)
    which = inside.nonzero().squeeze(1)
    new = indices.index_select(1, which)
    new[at] = row.index_select(0, which) // step
    found = _taken(x, which, new, size, x._sorted)
    return to_sparse(found, layout=layout) if layout in (CSR, CSC) else found


def narrow(x: SparseTensor, dim: int, start: Any, length: int) -> SparseTensor:
    """`length` slices along a dim, from `start` on."""
    at = wrapped("narrow", dim, x.dim())
    start = int(start)
    start += x.shape[at] if start < 0 else 0
    if start < 0 or length < 0 or start + length > x.shape[at]:
        raise RuntimeError(
            f"narrow: {length} slices from {start} on are out of range for dim {at} of "
            f"size {x.shape[at]}"
        )
    return cut(x, at, start, start + length)


def index_select(x: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """Slices along a dim by their indices."""
    at = wrapped("index_select", dim, x.dim())
    if index.dim() > 1 or index.dtype not in (_C.int64, _C.int32):
        raise IndexError(
            f"index_select: index must be a vector of int64 or int32, got {index.dtype} "
            f"of shape {list(index.shape)}"
        )
    layout = x._layout
    x = to_coo(x)
    indices, n = x._parts[0], x._parts[0].shape[0]
    wanted = index.reshape(-1).long()
    size = list(x.shape)
    wanted = _C.where(wanted < 0, wanted + size[at], wanted)
    size[at] = wanted.shape[0]
    if wanted.numel() and (int(wanted.min()) < 0 or int(wanted.max()) >= x.shape[at]):
        raise IndexError(
            f"index_select: an index is out of range for dim {at} of size {x.shape[at]}"
        )
    if at >= n:
        values = x._vals.index_select(at - n + 1, wanted)
        return make(COO, (indices,), values, size, x._sorted)
    sorted_rows, order = indices[at].sort(stable=True)
    begin = _C.searchsorted(sorted_rows, wanted)
    counts = _C.searchsorted(sorted_rows, wanted, right=True) - begin
    total = int(counts.sum())
    slot = numbers(wanted.shape[0], wanted).repeat_interleave(counts, output_size=total)
    ahead = (counts.cumsum(0) - counts - begin).index_select(0, slot)
    which = order.index_select(0, numbers(total, wanted) - ahead)
    new = indices.index_select(1, which)
    new[at] = slot
    found = _taken(x, which, new, size, x._sorted and at == 0)
    return to_sparse(found, layout=layout) if layout in (CSR, CSC) else found


def _one_index(item, device):
    """An int, slice, None or Ellipsis as it is; anything else as a vector of ints or bools."""
    if item is None or item is ... or isinstance(item, slice):
        return item
    if isinstance(item, bool) or (isinstance(item, Tensor) and item.dtype == _C.bool
                                  and item.dim() == 0):  # fmt: skip
        raise NotImplementedError("indexing: a single bool does not index a sparse tensor")
    if not isinstance(item, Tensor):
        if hasattr(item, "__index__"):
            return item.__index__()
        item = _C.tensor(item, device=device)
        item = item if item.numel() else item.long()
    if item.dtype not in (_C.bool, _C.int64, _C.int32):
        raise IndexError(f"indexing: indices must be ints or bools, got {item.dtype}")
    if item.dim() == 0:
        return int(item)
    if item.dim() != 1:
        raise NotImplementedError("indexing: sparse tensors take lists of ints of one dim, "
                                  f"got shape {list(item.shape)}")  # fmt: skip
    return item.to(device)


def _each_index(x, index):
    """The parts of an index, one per dim; an Ellipsis as the slices that it stands for."""
    items = [_one_index(i, x.device) for i in (index if isinstance(index, tuple) else (index,))]
    named = sum(1 for i in items if i is not None and i is not ...)
    if named > x.dim():
        raise IndexError(f"indexing: {named} indices for {x.dim()} dims")
    if sum(isinstance(i, Tensor) for i in items) > 1:
        raise NotImplementedError("indexing: sparse tensors take one list of ints at a time; write "
                                  "x[a][:, b] for rows and columns")  # fmt: skip
    first = next((k for k, i in enumerate(items) if i is ...), None)
    if first is None:
        return items
    wide = [slice(None)] * (x.dim() - named)
    return [*items[:first], *wide, *(i for i in items[first:] if i is not ...)]


def getitem(x: SparseTensor, index: Any) -> Tensor:
    """x[...]: ints, slices, None, Ellipsis, and one list or vector of ints or bools."""
    items = _each_index(x, index)
    found: Any = x
    dim = 0
    for k, item in enumerate(items):
        if not isinstance(found, SparseTensor):  # its sparse dims are gone
            return found[(slice(None),) * dim + tuple(items[k:])]
        if item is None:
            found = unsqueeze(found, dim)
        elif isinstance(item, slice):
            begin, end, step = item.indices(found.shape[dim])
            if step <= 0:
                raise ValueError(f"indexing: the step of a slice must be positive, got {step}")
            if (begin, end, step) != (0, found.shape[dim], 1):
                found = cut(found, dim, begin, max(begin, end), step)
        elif isinstance(item, int):
            found = select(found, dim, item)
            dim -= 1
        else:
            if item.dtype == _C.bool:
                if item.shape[0] != found.shape[dim]:
                    raise IndexError(f"indexing: a mask of {item.shape[0]} elements does not fit "
                                     f"dim {dim} of size {found.shape[dim]}")  # fmt: skip
                item = item.nonzero().squeeze(1)
            found = index_select(found, dim, item)
        dim += 1
    return found


def _check_all_coo(name, tensors):
    if isinstance(tensors, Tensor):
        raise TypeError(f"{name}: expected a list of tensors, got one tensor")
    if not all(isinstance(x, SparseTensor) and x._layout is COO for x in tensors):
        raise RuntimeError(
            f"{name}: either all tensors are of layout sparse_coo, or none is sparse"
        )


def cat(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    """Sparse tensors one after the other along a dim."""
    _check_all_coo("cat", tensors)
    first = tensors[0]
    at = wrapped("cat", dim, first.dim())
    n = first.sparse_dim()
    for x in tensors:
        if x.sparse_dim() != n or x.dim() != first.dim() or any(
            a != b for d, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if d != at
        ):  # fmt: skip
            raise RuntimeError(
                f"cat: sizes must agree but for dim {at}, got {list(first.shape)} and "
                f"{list(x.shape)}"
            )
    size = list(first.shape)
    size[at] = sum(x.shape[at] for x in tensors)
    before, indices, values = 0, [], []
    for x in tensors:
        own = x._parts[0]
        if at < n and before:
            own = own.clone()
            own[at] += before
        left, right = before, size[at] - before - x.shape[at]
        indices.append(own)
        values.append(x._vals if at < n else _padded(x._vals, at - n + 1, left, right))
        before += x.shape[at]
    return make(COO, (_C.cat(indices, 1),), _C.cat(values), size,
                at == 0 and n > 0 and all(x._sorted for x in tensors))  # fmt: skip


def _padded(values, dim, left, right):
    """Zeros before and after the values along a dim."""
    shape = list(values.shape)
    sides = []
    for width in (left, right):
        shape[dim] = width
        sides.append(values.new_zeros(shape))
    return _C.cat((sides[0], values, sides[1]), dim)


def hstack(tensors: Sequence[Any]) -> SparseTensor:
    """Sparse tensors side by side: along the second dim, or the only one."""
    _check_all_coo("hstack", tensors)
    return cat(tensors, min(1, tensors[0].dim() - 1))


def vstack(tensors: Sequence[Any]) -> SparseTensor:
    """Sparse tensors one below the other; those of one dim are rows."""
    _check_all_coo("vstack", tensors)
    return cat([unsqueeze(x, 0) if x.dim() == 1 else x for x in tensors])


def column_stack(tensors: Sequence[Any]) -> SparseTensor:
    """Sparse tensors side by side; those of one dim are columns."""
    _check_all_coo("column_stack", tensors)
    return cat([unsqueeze(x, 1) if x.dim() == 1 else x for x in tensors], 1)


def dstack(tensors: Sequence[Any]) -> SparseTensor:
    """Sparse tensors one behind the other, along the third dim."""
    _check_all_coo("dstack", tensors)
    rows = [unsqueeze(x, 0) if x.dim() == 1 else x for x in tensors]
    return cat([unsqueeze(x, 2) if x.dim() == 2 else x for x in rows], 2)


def movedim(x: SparseTensor, source: Any, destination: Any) -> SparseTensor:
    """Dims at other places; sparse dims stay before dense ones."""
    source, destination = (
        [wrapped("movedim", d, x.dim()) for d in ([at] if isinstance(at, int) else at)]
        for at in (source, destination)
    )
    if len({*source}) != len(source) or len({*destination}) != len(source):
        raise RuntimeError(f"movedim: {source} and {destination} must name as many dims, each once")
    rest = iter([d for d in range(x.dim()) if d not in source])
    moved = dict(zip(destination, source, strict=True))
    return permute(x, [moved[k] if k in moved else next(rest) for k in range(x.dim())])


def stack(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    """Sparse tensors of one size along a new dim."""
    _check_all_coo("stack", tensors)
    at = wrapped("stack", dim, tensors[0].dim() + 1)
    return cat([unsqueeze(x, at) for x in tensors], at)
