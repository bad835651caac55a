"""Other shapes of nested tensors. The batch stays the first dim; the ragged dim may move, but is
never cut or joined."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nested._ragged import NestedInt
from rushlight.nested._tensor import (
    NestedTensor,
    dim_of,
    join,
    sizes_of,
    values_like,
    with_values,
)
from rushlight.nested._tensor import contiguous as packed

__all__ = [
    "cat", "chunk", "contiguous", "expand", "expand_as", "flatten", "getitem", "narrow", "permute",
    "reshape", "reshape_as", "select", "split", "split_with_sizes", "squeeze", "stack", "t",
    "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as",
]  # fmt: skip


def _inner(op: str, x: NestedTensor, dim: int) -> int:
    """The dim of the values that is a dim of x, neither its batch nor its ragged one."""
    at = dim_of(op, x, dim)
    if at in (0, x._ragged_idx):
        what = "batch" if at == 0 else "ragged"
        raise RuntimeError(
            f"{op}: dim {dim} is the {what} dim of the nested tensor; take the parts by unbind()"
        )
    return at - 1


def contiguous(x: NestedTensor, memory_format: Any = None) -> NestedTensor:
    """See Tensor.contiguous."""
    return packed(x)


def unbind(x: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts, as views of the values."""
    if dim_of("unbind", x, dim) != 0:
        raise RuntimeError(f"unbind: only along the batch (dim 0) of a nested tensor, got {dim}")
    at, ragged = x._ragged_idx - 1, x._ragged
    return tuple(
        x._vals.narrow(at, start, count)
        for start, count in zip(ragged.starts, ragged.counts, strict=True)
    )


def select(x: NestedTensor, dim: int, index: int) -> Tensor | NestedTensor:
    """See Tensor.select."""
    if dim_of("select", x, dim) != 0:
        at = _inner("select", x, dim)
        ragged_idx = x._ragged_idx - (at < x._ragged_idx - 1)
        return with_values(x, x._vals.select(at, index), ragged_idx)
    count = len(x._ragged)
    if not -count <= index < count:
        raise IndexError(f"select: index {index} is out of range for {count} parts")
    ragged = x._ragged
    at = index % count
    return x._vals.narrow(x._ragged_idx - 1, ragged.starts[at], ragged.counts[at])


def getitem(x: NestedTensor, index: Any) -> Tensor:
    """x[i] is a part; other dims than batch and ragged may be indexed by numbers and slices."""
    index = list(index) if isinstance(index, tuple) else [index]
    dims = x._vals.dim() + 1
    if any(i is Ellipsis for i in index):
        at = next(n for n, i in enumerate(index) if i is Ellipsis)
        index[at : at + 1] = [slice(None)] * (dims - (len(index) - 1))
    if len(index) > dims:
        raise IndexError(f"getitem: {len(index)} indices for a nested tensor of {dims} dims")
    if index and isinstance(index[0], int) and not isinstance(index[0], bool):
        part = select(x, 0, index[0])
        return part[tuple(index[1:])] if len(index) > 1 else part
    found: Any = x
    dim = 0
    for i in index:
        if isinstance(i, slice) and i == slice(None):
            dim += 1
        elif isinstance(i, slice):
            at = _inner("getitem", found, dim)
            found = with_values(found, found._vals[(slice(None),) * at + (i,)])
            dim += 1
        elif isinstance(i, int) and not isinstance(i, bool):
            found = select(found, dim, i)
        else:
            raise NotImplementedError(
                f"getitem: nested tensors take numbers and slices, got {type(i).__name__}; index "
                "the parts (unbind())"
            )
    return found


def transpose(x: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    """See Tensor.transpose."""
    a, b = dim_of("transpose", x, dim0), dim_of("transpose", x, dim1)
    if a == b:
        return x
    if 0 in (a, b):
        raise _C.ShapeError("transpose: the batch of a nested tensor stays its first dim")
    ragged_idx = {a: b, b: a}.get(x._ragged_idx, x._ragged_idx)
    return with_values(x, x._vals.transpose(a - 1, b - 1), ragged_idx)


def permute(x: NestedTensor, *dims: Any) -> NestedTensor:
    """See Tensor.permute."""
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    at = [dim_of("permute", x, d) for d in order]
    if sorted(at) != list(range(x._vals.dim() + 1)):
        raise RuntimeError(f"permute: {tuple(order)} is no order of {x._vals.dim() + 1} dims")
    if at[0] != 0:
        raise _C.ShapeError("permute: the batch of a nested tensor stays its first dim")
    values = x._vals.permute([d - 1 for d in at[1:]])
    return with_values(x, values, at.index(x._ragged_idx))


def t(x: NestedTensor) -> NestedTensor:
    """See Tensor.t."""
    return transpose(x, 0, 1)


def _sizes(op, x, given):
    """Sizes that programs ask for, with the ragged one in its place, and that place."""
    sizes = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    sizes = list(sizes)
    own = sizes_of(x)
    ragged = [i for i, n in enumerate(sizes) if isinstance(n, NestedInt)]
    if ragged and (len(ragged) > 1 or sizes[ragged[0]] != x._ragged.size):
        raise RuntimeError(f"{op}: {tuple(sizes)} has another ragged size than {tuple(own)}")
    at = ragged[0] if ragged else x._ragged_idx
    if not sizes or len(sizes) <= at or sizes[0] not in (own[0], -1) or (
        not ragged and sizes[at] != -1
    ):  # fmt: skip
        raise RuntimeError(
            f"{op}: sizes {tuple(own)} do not become {tuple(sizes)}; the batch stays first, and "
            "the ragged size is nt.size(dim) or -1 in its place"
        )
    return sizes, at


def _side(op, x, wanted, there):
    """Sizes on one side of the ragged dim, with a -1 filled in."""
    held = math.prod(there)
    if wanted.count(-1) == 1:
        known = -math.prod(wanted)
        wanted = [held // max(known, 1) if n == -1 else n for n in wanted]
    if math.prod(wanted) != held:
        raise RuntimeError(f"{op}: sizes {tuple(there)} of {tuple(sizes_of(x))} do not become "
                           f"{tuple(wanted)}")  # fmt: skip
    return wanted


def _viewed(op, x, given, run):
    # The ragged dim is a wall: what lies before it stays before it.
    sizes, at = _sizes(op, x, given)
    own, was = sizes_of(x), x._ragged_idx
    before = _side(op, x, sizes[1:at], own[1:was])
    after = _side(op, x, sizes[at + 1 :], own[was + 1 :])
    return with_values(x, run(x._vals, [*before, x._vals.shape[was - 1], *after]), at)


def view(x: NestedTensor, *size: Any) -> NestedTensor:
    """See Tensor.view."""
    if len(size) == 1 and isinstance(size[0], _C.dtype):
        raise NotImplementedError("view: with a dtype not there for nested tensors")
    return _viewed("view", x, size, lambda v, s: v.view(s))


def reshape(x: NestedTensor, *shape: Any) -> NestedTensor:
    """See Tensor.reshape."""
    return _viewed("reshape", x, shape, lambda v, s: v.reshape(s))


def view_as(x: NestedTensor, other: Any) -> NestedTensor:
    """See Tensor.view_as."""
    return view(x, sizes_of(other))


def reshape_as(x: NestedTensor, other: Any) -> NestedTensor:
    """See Tensor.reshape_as."""
    return reshape(x, sizes_of(other))


def unflatten(x: NestedTensor, dim: int, sizes: Any) -> NestedTensor:
    """See Tensor.unflatten."""
    at = _inner("unflatten", x, dim)
    more = len(sizes) - 1 if at < x._ragged_idx - 1 else 0
    return with_values(x, x._vals.unflatten(at, sizes), x._ragged_idx + more)


def flatten(x: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    """See Tensor.flatten."""
    first, last = dim_of("flatten", x, start_dim), dim_of("flatten", x, end_dim)
    if first == last:
        return x
    if first == 0 or first <= x._ragged_idx <= last:
        raise RuntimeError("flatten: batch and ragged dim of a nested tensor are not joined; "
                           "values() has them as one")  # fmt: skip
    less = last - first if last < x._ragged_idx else 0
    return with_values(x, x._vals.flatten(first - 1, last - 1), x._ragged_idx - less)


def unsqueeze(x: NestedTensor, dim: int) -> NestedTensor:
    """See Tensor.unsqueeze."""
    dims = x._vals.dim() + 2
    if not -dims <= dim < dims:
        raise IndexError(f"unsqueeze: dim {dim} is out of range for {dims - 1} dims")
    at = dim % dims
    if at == 0:
        raise RuntimeError("unsqueeze: the batch of a nested tensor stays its first dim")
    return with_values(x, x._vals.unsqueeze(at - 1), x._ragged_idx + (at <= x._ragged_idx))


def squeeze(x: NestedTensor, dim: Any = None) -> NestedTensor:
    """See Tensor.squeeze."""
    if dim is None:
        raise RuntimeError("squeeze: say which dim of the nested tensor")
    at = dim_of("squeeze", x, dim)
    if at in (0, x._ragged_idx) or x._vals.shape[at - 1] != 1:
        return x
    return with_values(x, x._vals.squeeze(at - 1), x._ragged_idx - (at < x._ragged_idx))


def expand(x: NestedTensor, *sizes: Any, implicit: bool = False) -> NestedTensor:
    """See Tensor.expand."""
    wanted, at = _sizes("expand", x, sizes)
    if at != x._ragged_idx or len(wanted) != x._vals.dim() + 1:
        raise RuntimeError(f"expand: sizes {tuple(sizes_of(x))} do not become {tuple(wanted)}")
    wanted[at] = -1
    return with_values(x, x._vals.expand(*wanted[1:]))


def expand_as(x: Tensor, other: Any) -> NestedTensor:
    """See Tensor.expand_as."""
    if not isinstance(x, NestedTensor):
        from rushlight.nested._rules import pointwise

        return pointwise("expand_as", lambda a, b: a.expand_as(b), (x, other), {})
    return expand(x, sizes_of(other))


def chunk(x: NestedTensor, chunks: int, dim: int = 0) -> tuple[NestedTensor, ...]:
    """See Tensor.chunk."""
    if dim_of("chunk", x, dim) == 0:
        return _of_batch(x, [len(p) for p in _C.arange(len(x._ragged)).chunk(chunks)])
    at = _inner("chunk", x, dim)
    return tuple(with_values(x, v) for v in x._vals.chunk(chunks, at))


def _of_batch(x, counts):
    """Some parts each."""
    parts, found, first = unbind(x), [], 0
    for n in counts:
        found.append(join(parts[first : first + n], x._ragged_idx - 1, x._jagged))
        first += n
    return tuple(found)


def split(x: NestedTensor, split_size: Any, dim: int = 0) -> tuple[NestedTensor, ...]:
    """See Tensor.split."""
    at = _inner("split", x, dim)
    return tuple(with_values(x, v) for v in x._vals.split(split_size, at))


split_with_sizes = split


def narrow(x: NestedTensor, dim: int, start: Any, length: int) -> NestedTensor:
    """See Tensor.narrow."""
    return with_values(x, x._vals.narrow(_inner("narrow", x, dim), start, length))


def _all_nested(op, tensors):
    tensors = list(tensors)
    if not all(isinstance(t, NestedTensor) for t in tensors):
        raise RuntimeError(f"{op}: either all tensors are nested, or none")
    if all(t._ragged.is_whole for t in tensors):
        return tensors
    return [packed(t) for t in tensors]


def cat(tensors: Any, dim: int = 0) -> Tensor:
    """See rushlight.cat."""
    tensors = _all_nested("cat", tensors)
    x = tensors[0]
    if dim_of("cat", x, dim) == 0:
        if any(t._ragged_idx != x._ragged_idx for t in tensors):
            raise RuntimeError("cat: the tensors are ragged in different dims")
        return join([p for t in tensors for p in unbind(t)], x._ragged_idx - 1, x._jagged)
    at = _inner("cat", x, dim)
    for y in tensors[1:]:
        values_like("cat", with_values(x, x._vals.narrow(at, 0, 0)),
                    with_values(y, y._vals.narrow(at, 0, 0)))  # fmt: skip
    return with_values(x, _C.cat([t._vals for t in tensors], at))


def stack(tensors: Any, dim: int = 0) -> Tensor:
    """See rushlight.stack."""
    tensors = _all_nested("stack", tensors)
    return cat([unsqueeze(t, dim) for t in tensors], dim)
