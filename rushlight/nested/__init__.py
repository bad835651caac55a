"""Nested tensors: batches of tensors that differ in one size. docs/nested.md is the guide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.missing import submodule_or_raise
from rushlight.autograd import no_grad
from rushlight.nested._ragged import Ragged
from rushlight.nested._tensor import NestedTensor, contiguous, join, make
from rushlight.types import Device

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip


def _layout(op, layout):
    """Is the layout jagged?"""
    if layout is None or layout is _C.strided:
        return False
    if layout is not _C.jagged:
        raise RuntimeError(f"{op}: layout must be jagged or strided, got {layout}")
    return True


def _ragged_dim(op, parts):
    """The only dim in which the parts differ, or the first one."""
    dims = {p.dim() for p in parts}
    if len(dims) != 1:
        raise RuntimeError(f"{op}: all tensors must have the same number of dims, got {dims}")
    if dims == {0}:
        raise RuntimeError(f"{op}: numbers (0-d tensors) cannot be nested; stack() them")
    differ = [d for d in range(parts[0].dim()) if len({p.shape[d] for p in parts}) > 1]
    if len(differ) > 1:
        raise RuntimeError(
            f"{op}: the tensors may differ in one dim only, but these differ in {differ}; their "
            f"shapes are {[tuple(p.shape) for p in parts[:3]]}{'...' if len(parts) > 3 else ''}"
        )
    return differ[0] if differ else 0


def _joined(op, parts, dtype, device, jagged):
    """One tensor of many, with history."""
    if not parts:
        raise RuntimeError(f"{op}: expected at least one tensor")
    if any(p.layout is not _C.strided or p.is_nested for p in parts):
        raise RuntimeError(f"{op}: the tensors must be dense; nest the parts of nested ones")
    at = _ragged_dim(op, parts)
    if len({p.dtype for p in parts}) > 1:
        raise RuntimeError(f"{op}: the tensors have different dtypes")
    if len({p.device for p in parts}) > 1:
        raise RuntimeError(f"{op}: the tensors lie on different devices")
    return join(parts, at, jagged).to(device=device, dtype=dtype)


def nested_tensor(tensor_list: Sequence[Any], *, dtype: _C.dtype | None = None,
                  layout: _C.layout | None = None, device: Device = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A nested tensor with copies of the given tensors, without history.

    Arguments:
        tensor_list: tensors, or what `tensor` takes, that differ in one dim at most.
        dtype: of the result; that of the tensors.
        layout: jagged, or strided (the default), which has fewer operators in PyTorch.
        device: of the result; that of the tensors.
        requires_grad: whether operations on it are recorded.
        pin_memory: in pinned memory.

    Example:
        >>> nt = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
        >>> nt.sum(1)
        tensor([3., 3.])
        >>> (nt * 2).unbind()
        (tensor([2., 4.]), tensor([6.]))
    """
    if isinstance(tensor_list, Tensor):
        raise TypeError("nested_tensor: expected a list of tensors; as_nested_tensor takes one")
    jagged = _layout("nested_tensor", layout)
    parts = [t.detach() if isinstance(t, Tensor) else _C.tensor(t) for t in tensor_list]
    with no_grad():
        made = _joined("nested_tensor", parts, dtype, device, jagged)
    made.requires_grad_(requires_grad)
    return made.pin_memory() if pin_memory else made


def as_nested_tensor(ts: Any, dtype: _C.dtype | None = None, device: Device = None,
                     layout: _C.layout | None = None) -> Tensor:  # fmt: skip
    """A nested tensor of tensors, through which gradients flow back to them.

    Arguments:
        ts: a list of tensors, or a tensor whose first dim is the batch: that one is not copied if
            it is contiguous.
        dtype, device: of the result.
        layout: jagged or strided.

    Example:
        >>> a, b = rl.ones(2, requires_grad=True), rl.ones(3, requires_grad=True)
        >>> rl.nested.as_nested_tensor([a, b], layout=rl.jagged).mul(2).sum().backward()
        >>> b.grad
        tensor([2., 2., 2.])
    """
    jagged = _layout("as_nested_tensor", layout)
    if isinstance(ts, NestedTensor):
        if layout is not None and layout is not ts.layout:
            raise RuntimeError(
                "as_nested_tensor: the layout of a nested tensor is not changed; nest its parts "
                "(unbind()) again"
            )
        return ts.to(device=device, dtype=dtype)
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError(f"as_nested_tensor: a tensor needs 2 dims or more, got {ts.dim()}")
        values = ts.flatten(0, 1).to(device=device, dtype=dtype)
        batch, length = ts.shape[:2]
        offsets = _C.arange(batch + 1, device=values.device) * length
        return make(values, Ragged(offsets, None, batch * length), 1, jagged)
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, Tensor) for t in ts):
        raise TypeError("as_nested_tensor: expected a tensor, or a list or tuple of tensors")
    return _joined("as_nested_tensor", list(ts), dtype, device, jagged)


def _vector(op, name, tensor, values):
    if not isinstance(tensor, Tensor) or tensor.dim() != 1 or tensor.dtype not in (
        _C.int32, _C.int64,
    ):  # fmt: skip
        raise RuntimeError(f"{op}: {name} must be a vector of int32 or int64")
    if tensor.device != values.device:
        raise RuntimeError(f"{op}: {name} is on {tensor.device}, values on {values.device}")


def nested_tensor_from_jagged(values: Tensor, offsets: Tensor | None = None,
                              lengths: Tensor | None = None, jagged_dim: int | None = None,
                              min_seqlen: int | None = None,
                              max_seqlen: int | None = None) -> Tensor:  # fmt: skip
    """A nested tensor that is a view of sequences which lie one behind the other.

    Arguments:
        values: the sequences, joined along a dim.
        offsets: where each begins, and the end: one more than there are sequences.
        lengths: how long they are; together with offsets, where there are holes between them.
        jagged_dim: which dim of the result is ragged, 1 or more; dim jagged_dim - 1 of values.
        min_seqlen, max_seqlen: accepted.

    Example:
        >>> nt = rl.nested.nested_tensor_from_jagged(rl.arange(5), rl.tensor([0, 2, 5]))
        >>> nt.unbind()
        (tensor([0, 1]), tensor([2, 3, 4]))
    """
    op = "nested_tensor_from_jagged"
    if not isinstance(values, Tensor):
        raise TypeError(f"{op}: values must be a tensor, got {type(values).__name__}")
    if values.dim() == 0:
        raise IndexError(f"{op}: values must have a dim that sequences lie along, got a number")
    if isinstance(values, NestedTensor) or values.layout is not _C.strided:
        raise RuntimeError(f"{op}: values must be a tensor of the layout strided")
    dim = 1 if jagged_dim is None else jagged_dim
    if dim < 1 or dim > values.dim():
        raise ValueError(f"{op}: jagged_dim must be between 1 and {values.dim()}, got {dim}")
    if lengths is not None:
        _vector(op, "lengths", lengths, values)
    if offsets is None:
        if lengths is None:
            raise RuntimeError(f"{op}: offsets or lengths must be given")
        offsets, lengths = _C.cat([lengths.new_zeros(1), lengths.cumsum(0).to(lengths.dtype)]), None
    _vector(op, "offsets", offsets, values)
    if offsets.shape[0] < 1:
        raise RuntimeError(f"{op}: offsets must have one element more than there are sequences")
    if lengths is not None and lengths.shape[0] != offsets.shape[0] - 1:
        raise RuntimeError(
            f"{op}: {offsets.shape[0]} offsets are of {offsets.shape[0] - 1} sequences, lengths of "
            f"{lengths.shape[0]}"
        )
    ragged = Ragged(offsets, lengths, values.shape[dim - 1])
    _check(op, ragged)
    return make(values, ragged, dim)


def _check(op, ragged):
    """Do all sequences lie inside the values, one behind the other?"""
    ends = (*ragged.starts[1:], ragged.total)
    for start, count, end in zip(ragged.starts, ragged.counts, ends, strict=False):
        if start < 0 or count < 0 or start + count > ragged.total:
            raise RuntimeError(
                f"{op}: a sequence of {count} rows from {start} on does not lie in the values, "
                f"which have {ragged.total}"
            )
        if start + count > end:
            raise RuntimeError(
                f"{op}: a sequence of {count} rows from {start} on reaches into the next one, "
                f"which begins at {end}"
            )


def narrow(tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor,
           layout: _C.layout | None = None) -> Tensor:  # fmt: skip
    """Of each batch of a tensor, `length` elements from `start` on, along dim 1.

    With layout=jagged it is a view, as a cache of keys needs it: the rows between are holes.

    Arguments:
        tensor: (B, L, ...), contiguous.
        dim: 1.
        start, length: a number, or one per batch.
        layout: jagged, or strided, which copies.

    Example:
        >>> x = rl.arange(8).view(2, 4)
        >>> rl.nested.narrow(x, 1, 0, rl.tensor([1, 3]), layout=rl.jagged).unbind()
        (tensor([0]), tensor([4, 5, 6]))
    """
    jagged = _layout("narrow", layout)
    if dim != 1:
        raise RuntimeError(f"narrow: nested tensors are narrowed along dim 1, got {dim}")
    if isinstance(tensor, NestedTensor):
        raise RuntimeError("narrow: expected a tensor of one size, got a nested one")
    if tensor.dim() < 2:
        raise RuntimeError(f"narrow: a tensor needs 2 dims or more, got {tensor.dim()}")
    batch, most = tensor.shape[:2]

    def per_batch(name, given):
        if isinstance(given, Tensor):
            if given.dim() > 1 or given.numel() not in (1, batch):
                raise RuntimeError(f"narrow: {name} must be a number or one for each of {batch}")
            if given.dtype not in (_C.int32, _C.int64):
                raise TypeError(f"narrow: {name} must be of int32 or int64, got {given.dtype}")
            return given.to(tensor.device).long().reshape(-1).expand(batch)
        if not isinstance(given, int):
            raise RuntimeError(
                f"narrow: {name} must be an int or a tensor, got {type(given).__name__}"
            )
        return _C.full((batch,), given, dtype=_C.int64, device=tensor.device)

    starts, lengths = per_batch("start", start), per_batch("length", length)
    if bool(((starts < 0) | (lengths < 0) | (starts + lengths > most)).any()):
        raise RuntimeError(f"narrow: start and length must lie inside dim 1, which has {most}")
    first = starts + _C.arange(batch, device=tensor.device) * most
    last = first[-1:] + lengths[-1:] if batch else first.new_zeros(1)
    ragged = Ragged(_C.cat([first, last]), lengths.contiguous(), batch * most)
    made = make(tensor.view(batch * most, *tensor.shape[2:]), ragged)
    return made if jagged else make(*_parts(contiguous(made)), 1, False)


def _parts(x):
    return x._vals, x._ragged


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """A nested tensor of those elements of a tensor where a mask is True, row by row.

    Arguments:
        tensor: a tensor; all dims but the last become the batch.
        mask: bool; broadcasts to the tensor.

    Example:
        >>> x = rl.tensor([[1, 2, 3], [4, 5, 6]])
        >>> rl.nested.masked_select(x, x % 2 == 1).unbind()
        (tensor([1, 3]), tensor([5]))
    """
    for name, x in (("tensor", tensor), ("mask", mask)):
        if isinstance(x, NestedTensor) or x.layout is not _C.strided:
            raise RuntimeError(f"masked_select: {name} must have the layout strided")
    if mask.dtype != _C.bool:
        raise RuntimeError(f"masked_select: mask must be bool, got {mask.dtype}")
    if tensor.dim() == 0:
        raise RuntimeError("masked_select: expected a tensor of at least one dim")
    mask = mask.expand(tensor.shape)
    return nested_tensor_from_jagged(tensor.masked_select(mask), lengths=mask.sum(-1).reshape(-1))


def to_padded_tensor(input: Tensor, padding: float, output_size: Sequence[int] | None = None,
                     out: Tensor | None = None) -> Tensor:  # fmt: skip
    """A tensor of one size, filled up with `padding` behind shorter parts.

    Arguments:
        input: a nested tensor.
        padding: the number.
        output_size: larger sizes than needed.
        out: where the result is written to.

    Example:
        >>> nt = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
        >>> rl.nested.to_padded_tensor(nt, 0.0)
        tensor([[1., 2.],
                [3., 0.]])
    """
    if not isinstance(input, NestedTensor):
        raise NotImplementedError("to_padded_tensor: expected a nested tensor")
    return input.to_padded_tensor(padding, output_size, out)


def rebuild(values: Tensor, offsets: Tensor, lengths: Any, ragged_idx: int, jagged: bool) -> Any:
    """A nested tensor of the parts that pickle and files have, which must fit together."""
    made: Any = nested_tensor_from_jagged(values, offsets, lengths, ragged_idx)
    made._jagged = bool(jagged)
    return made


def rebuild_strided(buffer: Tensor, sizes: Any, strides: Any, starts: Any) -> Any:
    """The same as PyTorch writes it for the layout strided: sizes and strides of each part."""
    if not all(isinstance(t, Tensor) for t in (buffer, sizes, strides, starts)) or (
        sizes.dim() != 2 or sizes.shape != strides.shape or starts.shape != sizes.shape[:1]
    ):  # fmt: skip
        raise RuntimeError("load: a nested tensor needs sizes, strides and a place for each part")
    flat = buffer.reshape(-1)
    parts = [
        flat.as_strided(size, step, flat.storage_offset() + start)
        for size, step, start in zip(sizes.tolist(), strides.tolist(), starts.tolist(), strict=True)
    ]
    return as_nested_tensor(parts)


def __getattr__(name: str) -> Any:
    return submodule_or_raise(__name__, name)
