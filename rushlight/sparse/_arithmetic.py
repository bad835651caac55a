"""Sums, products and powers of sparse tensors, element by element."""

from __future__ import annotations

import numbers
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.sparse._convert import (
    coalesce,
    keys_of,
    merged,
    sparse_mask,
    to_coo,
    to_dense,
    to_sparse,
)
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
    if isinstance(x, Tensor):
        return x.dim() == 0 and not isinstance(x, SparseTensor)
    return isinstance(x, numbers.Number)


def _check_operand(name, x):
    if not isinstance(x, Tensor) and not _is_number(x):
        raise TypeError(f"{name}: a sparse tensor goes with tensors and numbers, not with "
                        f"{type(x).__name__}")  # fmt: skip


def _check_alpha(name, alpha, dtype):
    """alpha must not be of a wider kind than the numbers that it multiplies."""
    if isinstance(alpha, Tensor) and alpha.numel() != 1:
        raise RuntimeError(f"{name}: alpha must be a number, got shape {list(alpha.shape)}")
    kind = alpha.dtype if isinstance(alpha, Tensor) else _C.tensor(alpha).dtype
    whole = not dtype.is_floating_point and not dtype.is_complex
    if (
        (kind.is_complex and not dtype.is_complex)
        or (whole and kind.is_floating_point)
        or (kind == _C.bool and dtype != _C.bool)
    ):
        raise RuntimeError(f"{name}: alpha of {kind} does not go with numbers of {dtype}")


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
    return n, keys_of(b._parts[0], b.shape[:n])


def _added_to_dense(a, b, alpha):
    _check_sizes("add", a, b)
    b = to_coo(b)
    dtype = _C.result_type(a, b._vals)
    n, at = _places(b)
    found = merged(a.to(dtype), n).index_add(0, at, _scaled(b._vals.to(dtype), alpha))
    return found.reshape(a.shape)


def _check_added(name, a, b, alpha):
    _check_operand(name, a)
    _check_operand(name, b)
    if isinstance(a, Tensor) and isinstance(b, Tensor) and not (
        type(alpha) is int and abs(alpha) == 1
    ):  # fmt: skip
        _check_alpha(name, alpha, _C.promote_types(a.dtype, b.dtype))


def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other: two sparse tensors, or a dense and a sparse one."""
    a, b = input, other
    _check_added("add", a, b, alpha)
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


def add_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input += alpha * other."""
    a, b = input, other
    if isinstance(a, SparseTensor):
        return change("add_", a, add(a, b, alpha=alpha))
    _check_added("add_", a, b, alpha)
    _check_sizes("add_", a, b)
    b = to_coo(b)
    n, at = _places(b)
    if not _C.can_cast(b.dtype, a.dtype):
        raise _C.DTypeError(f"add_: values of {b.dtype} cannot be added to a tensor of {a.dtype}")
    values = _scaled(b._vals.to(a.dtype), alpha)
    if n == 1:
        return a.index_add_(0, at, values)
    if a.is_contiguous():
        merged(a, n).index_add_(0, at, values)  # a view of it
        return a
    return a.index_put_(tuple(b._parts[0]), values, accumulate=True)


def _negated(name, a, b, alpha):
    if any(isinstance(x, Tensor) and x.dtype == _C.bool for x in (a, b)):
        raise RuntimeError(f"{name}: bools cannot be subtracted; use logical operators")
    if isinstance(alpha, bool):
        raise RuntimeError(f"{name}: alpha must be a number, got {alpha}")
    return -alpha


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other."""
    return add(input, other, alpha=_negated("sub", input, other, alpha))


def sub_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input -= alpha * other."""
    return add_(input, other, alpha=_negated("sub_", input, other, alpha))


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input."""
    return add(other, input, alpha=_negated("rsub", input, other, alpha))


def _times_places(a, b):
    """The product of two sparse tensors: at the places that both have."""
    if a._layout is not b._layout:
        raise RuntimeError(
            f"mul: the layouts are {NAMES[a._layout]} and {NAMES[b._layout]}; bring one "
            "tensor to that of the other"
        )
    _check_sizes("mul", a, b)
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(
            f"mul: the tensors have {a.sparse_dim()} and {b.sparse_dim()} sparse dims"
        )
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


def mul(input: Any, other: Any) -> Any:
    """input * other: zero, and not kept, where a sparse one has no element."""
    a, b = (input, other) if isinstance(input, SparseTensor) else (other, input)
    _check_operand("mul", b)
    if isinstance(b, SparseTensor) and (a.dim() == 0) != (b.dim() == 0):
        a, b = (a, to_dense(b)) if b.dim() == 0 else (b, to_dense(a))
    if isinstance(b, SparseTensor):
        return _times_places(a, b)
    if _is_number(b):
        return with_values(a, a._vals * b)
    wide = b.expand(a.shape) if tuple(b.shape) != tuple(a.shape) else b
    return with_values(a, a._vals * sparse_mask(wide, a)._vals)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other for a sparse tensor and a number."""
    a, b = input, other
    _check_operand("div", b)
    if not isinstance(a, SparseTensor) or not _is_number(b):
        raise RuntimeError("div: a sparse tensor can be divided by a number or a 0-d tensor only")
    a = a if rounding_mode is None or a._layout is not COO else coalesce(a)
    return with_values(a, _C.div(a._vals, b, rounding_mode=rounding_mode))


def pow(input: Any, exponent: Any) -> Any:
    """input ** exponent for a sparse tensor and a number that is not 0; elements that are not there
    stay 0."""
    a, b = input, exponent
    _check_operand("pow", b)
    if not isinstance(a, SparseTensor) or not _is_number(b):
        raise NotImplementedError("pow: a sparse tensor to the power of a number only")
    if b == 0 or isinstance(b, complex):
        raise RuntimeError("pow: a sparse tensor to the power of a real number other than 0 only")
    a = coalesce(a) if a._layout is COO else a
    return with_values(a, a._vals**b)
