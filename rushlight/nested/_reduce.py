"""Sums, means, largest elements and softmax of nested tensors."""

from __future__ import annotations

from typing import Any

from rushlight import _C, return_types
from rushlight._C import Tensor
from rushlight.nested._tensor import (
    NestedTensor,
    contiguous,
    dim_of,
    from_padded,
    padded,
    rows_first,
    with_values,
)

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "cumsum", "log_softmax",
    "logsumexp", "max", "mean", "min", "norm", "prod", "softmax", "std", "sum", "var",
]  # fmt: skip


def _dims(op, x, dim):
    """Dims as numbers from the front, or None for all."""
    if dim is None:
        return None
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    at = sorted(dim_of(op, x, d) for d in dims)
    if len(set(at)) != len(at):
        raise RuntimeError(f"{op}: a dim is named twice in {dims}")
    return at or None


def _refuse_batch(op):
    raise RuntimeError(
        f"{op}: the batch of a nested tensor alone is not reduced, as its parts have other sizes; "
        "name the ragged dim as well, or use to_padded_tensor()"
    )


def _over(op: str, x: NestedTensor, dim: Any, keepdim: bool, run: Any, padding: Any,
          along_rows: Any = None) -> Tensor:  # fmt: skip
    """A reduction. run(tensor, dims or None, keepdim); `padding` is what changes no result;
    along_rows(values with the packed dim first, ragged) reduces each sequence."""
    x = contiguous(x)
    dims = _dims(op, x, dim)
    every = list(range(x._vals.dim() + 1))
    if dims is None or dims == every:
        found = run(x._vals, None, False)
        return found.reshape([1] * len(every)) if keepdim and dim is not None else found
    at = x._ragged_idx
    if 0 in dims:
        if at not in dims:
            _refuse_batch(op)
        found = run(x._vals, [d - 1 for d in dims if d > 0], keepdim)
        return found.unsqueeze(0) if keepdim else found
    if at not in dims:
        found = run(x._vals, [d - 1 for d in dims], keepdim)
        less = 0 if keepdim else len([d for d in dims if d < at])
        return with_values(x, found, at - less)
    others = [d for d in dims if d != at]
    if along_rows is None or (others and op == "var"):
        return run(padded(x, padding), dims, keepdim)
    values, ragged = rows_first(x)
    found = along_rows(values, ragged)  # (batch, all other dims)
    found = found.unsqueeze(1).movedim(1, at)
    if others:
        found = run(found, others, True)
    if keepdim:
        return found
    for d in reversed(dims):
        found = found.squeeze(d)
    return found


def _wide(x):
    """Half types as float32: many small numbers are added up."""
    return x.float() if x.dtype in (_C.float16, _C.bfloat16) else x


def _sums(values, ragged):
    """Of each sequence, in a type that holds sums."""
    values = _wide(values)
    out = _C.zeros((len(ragged), *values.shape[1:]), dtype=values.dtype, device=values.device)
    return out.index_add(0, ragged.samples, values)


def _counts(values, ragged):
    return ragged.lengths_tensor.reshape(-1, *([1] * (values.dim() - 1)))


def sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """See Tensor.sum."""

    def along(values, ragged):
        wide = values if dtype is None else values.to(dtype)
        if not wide.dtype.is_floating_point and not wide.dtype.is_complex:
            wide = wide.long()
        return _sums(wide, ragged).to(wide.dtype)

    return _over("sum", x, dim, keepdim, lambda v, d, k: _of(v, "sum", d, k, dtype=dtype), 0, along)


def _of(values, name, dims, keepdim, **kwargs):
    if dims is None:
        return getattr(values, name)(**kwargs)
    return getattr(values, name)(dims, keepdim=keepdim, **kwargs)


def mean(x: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """See Tensor.mean."""

    def along(values, ragged):
        wide = values if dtype is None else values.to(dtype)
        found = _sums(wide, ragged) / _counts(values, ragged)
        return found.to(wide.dtype) if wide.is_floating_point() else found

    return _over(
        "mean", x, dim, keepdim, lambda v, d, k: _of(v, "mean", d, k, dtype=dtype), 0, along
    )


def var(x: NestedTensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
        *, correction: Any = None) -> Tensor:  # fmt: skip
    """See Tensor.var."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = int(unbiased) if unbiased is not None else 1 if correction is None else correction
    dims = _dims("var", x, dim)
    if dims is not None and x._ragged_idx in dims and 0 not in dims:
        wide = _wide(x)
        centred = wide - mean(wide, dims, True)
        if centred.is_complex():
            centred = centred.abs()
        count: Any = x._ragged.lengths_tensor
        for d in dims:
            if d != x._ragged_idx:
                count = count * x._vals.shape[d - 1]
        total = sum(centred * centred, dims, True)
        found = total / (count - less).clamp(min=0).reshape(-1, *([1] * (total.dim() - 1)))
        found = found if wide is x else found.to(x.dtype)
        if keepdim:
            return found
        for d in reversed(dims):
            found = found.squeeze(d)
        return found
    return _over("var", x, dim, keepdim, lambda v, d, k: _of(v, "var", d, k, correction=less), 0)


def std(x: NestedTensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
        *, correction: Any = None) -> Tensor:  # fmt: skip
    """See Tensor.std."""
    return var(x, dim, unbiased, keepdim, correction=correction).sqrt()


def _least(dtype):
    """What no element is below."""
    if dtype == _C.bool:
        return False
    return float("-inf") if dtype.is_floating_point else _C.iinfo(dtype).min


def _most(dtype):
    if dtype == _C.bool:
        return True
    return float("inf") if dtype.is_floating_point else _C.iinfo(dtype).max


def amax(x: NestedTensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """See Tensor.amax."""
    return _over("amax", x, dim, keepdim, lambda v, d, k: _of(v, "amax", d, k), _least(x.dtype))


def amin(x: NestedTensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """See Tensor.amin."""
    return _over("amin", x, dim, keepdim, lambda v, d, k: _of(v, "amin", d, k), _most(x.dtype))


def all(x: NestedTensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """See Tensor.all."""
    return _over("all", x, dim, keepdim, lambda v, d, k: _of(v, "all", d, k), 1)


def any(x: NestedTensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """See Tensor.any."""
    return _over("any", x, dim, keepdim, lambda v, d, k: _of(v, "any", d, k), 0)


def count_nonzero(x: NestedTensor, dim: Any = None) -> Tensor:
    """See Tensor.count_nonzero."""
    return sum(x != 0, dim)


def prod(x: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """See Tensor.prod."""

    def run(values, dims, keep):
        if dims is None:
            return values.prod(dtype=dtype)
        return values.prod(dims[0], keepdim=keep, dtype=dtype)

    if dim is not None and not isinstance(dim, int):
        raise TypeError("prod: dim must be an int")
    return _over("prod", x, dim, keepdim, run, 1)


def _with_places(op, x, dim, keepdim):
    """Largest or smallest elements along a dim, and where they are."""
    x = contiguous(x)
    at = dim_of(op, x, dim)
    if at == 0:
        _refuse_batch(op)
    if at == x._ragged_idx:
        padding = _least(x.dtype) if op == "max" else _most(x.dtype)
        return getattr(padded(x, padding), op)(at, keepdim)
    values, indices = getattr(x._vals, op)(at - 1, keepdim)
    ragged_idx = x._ragged_idx - (at < x._ragged_idx and not keepdim)
    return with_values(x, values, ragged_idx), with_values(x, indices, ragged_idx)


def _extreme(op, of_two, x, dim, keepdim):
    if isinstance(dim, Tensor):
        return of_two(x, dim)
    if dim is None:
        return getattr(contiguous(x)._vals, op)()
    return getattr(return_types, op)(_with_places(op, x, dim, keepdim))


def max(x: NestedTensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See Tensor.max."""
    return _extreme("max", _C.maximum, x, dim, keepdim)


def min(x: NestedTensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See Tensor.min."""
    return _extreme("min", _C.minimum, x, dim, keepdim)


def argmax(x: NestedTensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """See Tensor.argmax."""
    if dim is None:
        return contiguous(x)._vals.argmax()
    return _with_places("max", x, dim, keepdim)[1]


def argmin(x: NestedTensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """See Tensor.argmin."""
    if dim is None:
        return contiguous(x)._vals.argmin()
    return _with_places("min", x, dim, keepdim)[1]


def _along(op, x, dim, run, padding):
    """What keeps all elements but looks along a dim."""
    x = contiguous(x)
    at = dim_of(op, x, dim)
    if at == 0:
        _refuse_batch(op)
    if at == x._ragged_idx:
        return with_values(x, from_padded(run(padded(x, padding), at), x))
    return with_values(x, run(x._vals, at - 1))


def _softmax(op, x, dim, dtype):
    x = x if dtype is None else x.to(dtype)
    if not x.is_floating_point():
        raise _C.DTypeError(
            f"{op}: not implemented for {x.dtype} tensors: pass dtype= or convert with .float()"
        )
    return _along(op, x, dim, lambda v, d: getattr(v, op)(d), float("-inf"))


def softmax(x: NestedTensor, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """See Tensor.softmax."""
    return _softmax("softmax", x, dim, dtype)


def log_softmax(x: NestedTensor, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """See Tensor.log_softmax."""
    return _softmax("log_softmax", x, dim, dtype)


def cumsum(x: NestedTensor, dim: int, *, dtype: Any = None) -> Tensor:
    """See Tensor.cumsum."""
    return _along("cumsum", x, dim, lambda v, d: v.cumsum(d, dtype=dtype), 0)


def logsumexp(x: NestedTensor, dim: Any, keepdim: bool = False) -> Tensor:
    """See Tensor.logsumexp."""

    def run(values, dims, keep):
        return values.logsumexp(list(range(values.dim())) if dims is None else dims, keep)

    return _over("logsumexp", x, dim, keepdim, run, float("-inf"))


def norm(x: NestedTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False,
         dtype: Any = None) -> Tensor:  # fmt: skip
    """See Tensor.norm."""
    from rushlight.linalg import vector_norm

    order = 2 if p in ("fro", None) else p
    if not isinstance(order, (int, float)):
        raise NotImplementedError(f"norm: p must be a number or 'fro' for nested tensors, got {p}")
    if order <= 0 and dim is not None:
        raise NotImplementedError("norm: of nested tensors along dims p must be above 0")

    def run(values, dims, keep):
        values = values if dtype is None else values.to(dtype)
        return vector_norm(values, order, dims, keep)

    return _over("norm", x, dim, keepdim, run, 0)
