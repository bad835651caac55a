"""Sums, products and powers of sparse tensors, element by element."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.sparse._convert import coalesce, keys_of, sparse_mask, to_coo, to_sparse
from rushlight.sparse._tensor import (
    BLOCK_LAYOUTS,
    COO,
    NAMES,
    SparseTensor,
    make,
    replace,
    with_values,
)


def same_places(a: SparseTensor, b: SparseTensor) -> bool:
    """Have two tensors of one layout the same indices?"""
    return len(a._vals) == len(b._vals) and all(
        p is q or _C.equal(p, q) for p, q in zip(a._parts, b._parts, strict=True)
    )


def _is_number(x):
    return not isinstance(x, Tensor) or (x.dim() == 0 and not isinstance(x, SparseTensor))


def _check_sizes(name, a, b):
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(f"{name}: sizes must be equal where a tensor is sparse, got "
                           f"{list(a.shape)} and {list(b.shape)}")  # fmt: skip
    if a.device != b.device:
        raise _C.DeviceError(f"{name}: the tensors are on {a.device} and {b.device}")


def change(name: str, x: SparseTensor, found: SparseTensor) -> SparseTensor:
    """x takes over what an operation found, in place."""
    if not _C.can_cast(found.dtype, x.dtype):
        raise _C.DTypeError(f"{name}: a result of {found.dtype} cannot be written to a tensor of "
                            f"{x.dtype}")  # fmt: skip
    leaf = x.requires_grad and x.is_leaf
    if leaf and _C.is_grad_enabled():
        raise RuntimeError(f"{name}: a leaf that requires grad is written in place; use no_grad()")
    values = found._vals if found.dtype == x.dtype else found._vals.to(x.dtype)
    kept = all(p is q for p, q in zip(found._parts, x._parts, strict=True))
    if kept and not values.requires_grad and (leaf or not x.requires_grad):
        with no_grad():
            x._vals.copy_(values)
    else:
        if leaf:
            values = values.detach().requires_grad_()
        replace(x, found._parts, values, found._sorted, x.shape)
    return x


def _scaled(values, alpha):
    return values if type(alpha) is not Tensor and alpha == 1 else values * alpha


def _joined(a, b, alpha):
    """The sum of two sparse tensors of one layout."""
    if a._layout is not COO:
        if same_places(a, b):
            return with_values(a, a._vals + _scaled(b._vals, alpha))
        if a._layout in BLOCK_LAYOUTS:
            block = tuple(a._vals.shape[1:3])
            found = coalesce(_joined(to_coo(a), to_coo(b), alpha))
            return to_sparse(found, layout=a._layout, blocksize=block)
        return to_sparse(_joined(to_coo(a), to_coo(b), alpha), layout=a._layout)
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(
            f"add: the tensors have {a.sparse_dim()} and {b.sparse_dim()} sparse dims"
        )
    dtype = _C.promote_types(a.dtype, b.dtype)
    left, right = a._vals.to(dtype), _scaled(b._vals.to(dtype), alpha).to(dtype)
    ordered = a._sorted and b._sorted
    if same_places(a, b):
        return make(COO, a._parts, left + right, a.shape, ordered)
    indices = _C.cat((a._parts[0], b._parts[0]), 1)
    found = make(COO, (indices,), _C.cat((left, right)), a.shape)
    return coalesce(found) if ordered else found


def _places(b):
    """Where the elements of a sparse_coo tensor are in a dense one whose sparse dims are one."""
    n = b.sparse_dim()
    return n, keys_of(b._parts[0], b.shape[:n]) if n else b._parts[0].new_zeros(b._vals.shape[0])


def _added_to_dense(a, b, alpha):
    _check_sizes("add", a, b)
    b = to_coo(b)
    dtype = _C.result_type(a, b._vals)
    n, at = _places(b)
    flat = a.to(dtype).reshape(-1, *b.shape[n:])
    return flat.index_add(0, at, _scaled(b._vals, alpha).to(dtype)).reshape(a.shape)


def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """a + alpha * b: two sparse tensors, or a dense and a sparse one."""
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        _check_sizes("add", a, b)
        if a._layout is not b._layout:
            raise RuntimeError(f"add: the layouts are {NAMES[a._layout]} and {NAMES[b._layout]}; "
                               "bring one tensor to that of the other")  # fmt: skip
        return _joined(a, b, alpha)
    if isinstance(b, SparseTensor) and isinstance(a, Tensor) and a.dim() > 0:
        return _added_to_dense(a, b, alpha)
    raise RuntimeError("add: a sparse tensor plus a dense one or a number is dense: write dense + "
                       "sparse, or to_dense() first")  # fmt: skip


def add_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """a += alpha * b."""
    if isinstance(a, SparseTensor):
        return change("add_", a, add(a, b, alpha=alpha))
    _check_sizes("add_", a, b)
    b = to_coo(b)
    n, at = _places(b)
    values = _scaled(b._vals, alpha)
    if not _C.can_cast(values.dtype, a.dtype):
        raise _C.DTypeError(
            f"add_: values of {values.dtype} cannot be added to a tensor of {a.dtype}"
        )
    if n == 1:
        return a.index_add_(0, at, values.to(a.dtype))
    if a.is_contiguous():
        a.view(-1, *b.shape[n:]).index_add_(0, at, values.to(a.dtype))
        return a
    return a.index_put_(tuple(b._parts[0]), values.to(a.dtype), accumulate=True)


def _negated(alpha):
    return -alpha


def sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """a - alpha * b."""
    return add(a, b, alpha=_negated(alpha))


def sub_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """a -= alpha * b."""
    return add_(a, b, alpha=_negated(alpha))


def rsub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """b - alpha * a."""
    return add(b, a, alpha=_negated(alpha))


def _times_places(a, b):
    """The product of two sparse tensors: at the places that both have."""
    if a._layout is not b._layout:
        raise RuntimeError(
            f"mul: the layouts are {NAMES[a._layout]} and {NAMES[b._layout]}; bring one "
            "tensor to that of the other"
        )
    _check_sizes("mul", a, b)
    if a._layout is not COO:
        if same_places(a, b):
            return with_values(a, a._vals * b._vals)
        if a._layout in BLOCK_LAYOUTS:
            raise NotImplementedError(
                f"mul: two tensors of layout {NAMES[a._layout]} with different blocks"
            )
        return to_sparse(_times_places(to_coo(a), to_coo(b)), layout=a._layout)
    a, b = coalesce(a), coalesce(b)
    if same_places(a, b):
        return with_values(a, a._vals * b._vals)
    if len(a._vals) > len(b._vals):
        a, b = b, a
    n = a.sparse_dim()
    mine, theirs = keys_of(a._parts[0], a.shape[:n]), keys_of(b._parts[0], b.shape[:n])
    at = _C.searchsorted(theirs, mine).clamp(max=max(theirs.shape[0] - 1, 0))
    both = (theirs.index_select(0, at) == mine).nonzero().squeeze(1)
    values = a._vals.index_select(0, both) * b._vals.index_select(0, at.index_select(0, both))
    return make(COO, (a._parts[0].index_select(1, both),), values, a.shape, True)


def mul(a: Any, b: Any) -> Any:
    """a * b: zero, and not kept, where a sparse one has no element."""
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if isinstance(b, SparseTensor):
        return _times_places(a, b)
    if _is_number(b):
        return with_values(a, a._vals * b)
    wide = b.expand(a.shape) if tuple(b.shape) != tuple(a.shape) else b
    return with_values(a, a._vals * sparse_mask(wide, a)._vals)


def div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    """a / b for a sparse tensor and a number."""
    if not isinstance(a, SparseTensor) or not _is_number(b):
        raise RuntimeError("div: a sparse tensor can be divided by a number or a 0-d tensor only")
    a = a if rounding_mode is None or a._layout is not COO else coalesce(a)
    return with_values(a, _C.div(a._vals, b, rounding_mode=rounding_mode))


def pow(a: Any, b: Any) -> Any:
    """a ** b for a sparse tensor and a number above 0."""
    if not isinstance(a, SparseTensor) or not _is_number(b) or not b > 0:
        raise RuntimeError("pow: a sparse tensor to the power of a number above 0 only")
    a = coalesce(a) if a._layout is COO else a
    return with_values(a, a._vals**b)
