"""Dtypes, shapes, reductions, searching, sorting and sets."""

from __future__ import annotations

import builtins
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.array_api import _unsigned
from rushlight.array_api._elementwise import promoted
from rushlight.array_api._info import FloatLimits, IntLimits, dtypes_of_kind
from rushlight.linalg import matmul as _matmul
from rushlight.linalg import vecdot as _vecdot
from rushlight.types import Device, _dtype

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "astype", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "can_cast", "concat", "count_nonzero", "cumulative_prod", "cumulative_sum",
    "diff", "expand_dims", "finfo", "flip", "iinfo", "isdtype", "isin", "matmul",
    "matrix_transpose", "max", "mean", "min", "moveaxis", "nonzero", "permute_dims", "prod",
    "repeat", "reshape", "result_type", "roll", "searchsorted", "sort", "squeeze", "stack", "std",
    "sum", "take", "take_along_axis", "tensordot", "tile", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where",
]  # fmt: skip

# ----- dtypes


def astype(
    x: Tensor, dtype: _dtype | None, /, *, copy: bool = True, device: Device = None
) -> Tensor:
    """x in another dtype; a copy unless copy is False and nothing has to change."""
    if x.is_complex() and not dtype.is_complex and dtype != _C.bool:  # type: ignore[union-attr]
        raise TypeError(f"astype: complex numbers do not become {dtype}; take real(x) first")
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether values of one dtype are kept by the other under promotion."""
    from_ = from_.dtype if isinstance(from_, Tensor) else from_
    kinds = ("bool", "integral", ("real floating", "complex floating"))
    if not builtins.any(isdtype(from_, k) and isdtype(to, k) for k in kinds):
        return False  # the standard promotes within a kind only
    try:
        return _unsigned.promote(from_, to) == to
    except TypeError:
        return False


def finfo(type: Any, /) -> FloatLimits:
    """Limits of a floating dtype; of a complex one, of its parts."""
    return FloatLimits.of(type.dtype if isinstance(type, Tensor) else type)


def iinfo(type: Any, /) -> IntLimits:
    """Limits of an integer dtype."""
    return IntLimits.of(type.dtype if isinstance(type, Tensor) else type)


def isdtype(dtype: _dtype | None, kind: Any) -> bool:
    """Whether a dtype is of a kind, or one of several."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        return dtype in dtypes_of_kind(kind).values()
    return dtype == kind


def result_type(*arrays_and_dtypes: Any) -> _dtype:
    """The dtype that these promote to."""
    dtypes = [a.dtype if isinstance(a, Tensor) else a for a in arrays_and_dtypes]
    numbers = [a for a in dtypes if isinstance(a, bool | int | float | complex)]
    dtypes = [a for a in dtypes if not isinstance(a, bool | int | float | complex)]
    if not dtypes:
        raise ValueError("result_type: at least one array or dtype is needed")
    found = dtypes[0]
    for d in dtypes[1:]:
        found = _unsigned.promote(found, d)
    for n in numbers:
        if isinstance(n, complex) and not found.is_complex:
            found = _C.complex128 if found == _C.float64 else _C.complex64
    return found


# ----- shapes


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """All arrays in their common shape."""
    from rushlight.functional import broadcast_tensors

    return tuple(broadcast_tensors(*arrays))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    from rushlight.functional import broadcast_shapes as run

    return tuple(run(*shapes)) if shapes else ()


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """x in a larger shape."""
    return x.broadcast_to(tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one after the other."""
    arrays = promoted(*arrays)
    if axis is None:
        return _C.cat([a.reshape(-1) for a in arrays], 0)
    return _C.cat(arrays, axis)


def expand_dims(x: Tensor, /, *, axis: int | Sequence[int] | None = 0) -> Tensor:
    """New axes of size 1; several are places in the result."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)  # type: ignore[arg-type]
    ndim = x.ndim + len(axes)
    for a in axes:
        if not -ndim <= a < ndim:
            raise IndexError(f"expand_dims: axis {a} is out of range for {ndim} dimensions")
    places = {a % ndim for a in axes}
    if len(places) != len(axes):
        raise ValueError(f"expand_dims: an axis is named twice: {axes}")
    for a in sorted(places):
        x = x.unsqueeze(a)
    return x


def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The order of elements turned round."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return _C.flip(x, tuple(axes))


def moveaxis(x: Tensor, source: Any, destination: int | Sequence[int], /) -> Tensor:
    """Axes moved to other places."""
    return x.movedim(source, destination)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order."""
    return x.permute(tuple(axes))


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element several times."""
    if isinstance(repeats, Tensor):
        repeats = repeats.to(_C.int64)
    return x.repeat_interleave(repeats, axis)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """Another shape; copy=False raises where the memory does not allow it."""
    shape = tuple(shape)
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def roll(x: Tensor, /, shift: Any, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved round."""
    return _C.roll(x, shift, [] if axis is None else axis)


def squeeze(x: Tensor, /, axis: int | Sequence[int] | None) -> Tensor:
    """Axes of size 1 taken away."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)  # type: ignore[arg-type]
    for a in axes:
        if not -x.ndim <= a < x.ndim:
            raise IndexError(f"squeeze: axis {a} is out of range for {x.ndim} dimensions")
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} has size {x.shape[a]}, not 1")
    return x.squeeze(axes)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays along a new axis."""
    return _C.stack(promoted(*arrays), axis)


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """x several times along each axis."""
    return x.tile(tuple(repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return tuple(x.unbind(axis))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return x.mT


# ----- products


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product."""
    return _as_integers(_matmul, *promoted(x1, x2))


def _as_integers(f, x1, x2):
    """f of two tensors, wide unsigned ones by way of int64."""
    if x1.dtype not in _unsigned.WIDE:
        return f(x1, x2)
    found = f(_unsigned.to_int64(x1), _unsigned.to_int64(x2))
    return _unsigned.from_int64(found, x1.dtype)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums of products over axes."""
    from rushlight.functional import tensordot as run

    return _as_integers(lambda a, b: run(a, b, dims=axes), *promoted(x1, x2))  # type: ignore[arg-type]


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Inner products along an axis; the first operand is conjugated."""
    x1, x2 = promoted(x1, x2)
    if x1.is_floating_point() or x1.is_complex():
        return _vecdot(x1, x2, dim=axis)
    return _as_integers(lambda a, b: (a * b).sum(axis, dtype=a.dtype), x1, x2)


# ----- reductions


def _axes(axis):
    return axis if axis is None or isinstance(axis, int) else tuple(axis)


def _wide(x, dtype):
    """The standard's dtype of sums: at least the default one of the same kind."""
    if dtype is not None:
        return dtype
    if x.is_floating_point() or x.is_complex():
        return x.dtype
    if x.dtype in (_C.uint8, _C.uint16, _C.uint32, _C.uint64):
        return _C.uint64
    return _C.int64


def sum(x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: _dtype | None = None,
        keepdims: bool = False) -> Tensor:  # fmt: skip
    """The sum along axes."""
    wide = _wide(x, dtype)
    if axis == ():
        return x.to(wide)
    if wide == _C.uint64:
        return x.to(_C.int64).sum(_axes(axis), keepdim=keepdims).to(wide)
    return x.sum(_axes(axis), keepdim=keepdims, dtype=wide)


def prod(x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: _dtype | None = None,
         keepdims: bool = False) -> Tensor:  # fmt: skip
    """The product along axes."""
    wide = _wide(x, dtype)
    result = x.to(_C.int64 if wide == _C.uint64 else wide)
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for a in sorted((a % x.ndim for a in axes), reverse=True):
        result = result.prod(a, keepdim=keepdims)
    return result.to(wide)


def mean(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """The mean along axes."""
    return x if axis == () else x.mean(_axes(axis), keepdim=keepdims)


def var(x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0,
        keepdims: bool = False) -> Tensor:  # fmt: skip
    """The variance along axes."""
    if axis == ():
        return (
            (x - x) / builtins.max(1.0 - correction, 0.0) if correction != 1 else x * float("nan")
        )
    return _C.var(x, _axes(axis), correction=correction, keepdim=keepdims)


def std(x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0,
        keepdims: bool = False) -> Tensor:  # fmt: skip
    """The standard deviation along axes."""
    if axis == ():
        return var(x, axis=(), correction=correction)
    return _C.std(x, _axes(axis), correction=correction, keepdim=keepdims)


def max(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The largest element along axes."""
    return x if axis == () else x.amax(() if axis is None else _axes(axis), keepdim=keepdims)


def min(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The smallest element along axes."""
    return x if axis == () else x.amin(() if axis is None else _axes(axis), keepdim=keepdims)


def all(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes are true."""
    return x.to(_C.bool) if axis == () else x.to(_C.bool).all(_axes(axis), keepdim=keepdims)


def any(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Whether any element along axes is true."""
    return x.to(_C.bool) if axis == () else x.to(_C.bool).any(_axes(axis), keepdim=keepdims)


def count_nonzero(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """How many elements along axes are not zero."""
    if axis == ():
        return (x != 0).to(_C.int64)
    return (x != 0).sum(_axes(axis), keepdim=keepdims)


def _cumulative(f, x, axis, dtype, include_initial, first):
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"cumulative: axis is needed for {x.ndim} dimensions")
        axis = 0
    wide = _wide(x, dtype)
    found = f(x.to(_C.int64 if wide == _C.uint64 else wide), axis).to(wide)
    if include_initial:
        shape = [1 if d == axis % x.ndim else n for d, n in enumerate(x.shape)]
        found = _C.cat([_C.full(shape, first, dtype=wide, device=x.device), found], axis)
    return found


def cumulative_sum(x: Tensor, /, *, axis: int | Sequence[int] | None = None,
                   dtype: _dtype | None = None,
                   include_initial: bool = False) -> Tensor:  # fmt: skip
    """Sums of the elements so far."""
    return _cumulative(_C.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(x: Tensor, /, *, axis: int | Sequence[int] | None = None,
                    dtype: _dtype | None = None,
                    include_initial: bool = False) -> Tensor:  # fmt: skip
    """Products of the elements so far."""
    return _cumulative(_C.cumprod, x, axis, dtype, include_initial, 1)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None,
         append: Any = None) -> Tensor:  # fmt: skip
    """Differences of neighbours."""
    if x.dtype not in _unsigned.WIDE:
        return _C.diff(x, n, axis, prepend, append)
    ends = [None if t is None else _unsigned.to_int64(t) for t in (prepend, append)]
    return _unsigned.from_int64(_C.diff(_unsigned.to_int64(x), n, axis, *ends), x.dtype)


# ----- searching and sorting


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest element is."""
    return x.argmax(axis, keepdim=keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element is."""
    return x.argmin(axis, keepdim=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Where the elements are not zero, one tensor per axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: a 0-d tensor has no axes")
    return tuple(x.nonzero().unbind(1))


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where elements of x2 (or one number) go into the sorted x1."""
    x1, x2 = promoted(x1, x2)
    if x1.dtype in _unsigned.WIDE:
        x1, x2 = _unsigned.ordered(x1), _unsigned.ordered(x2)
    return _C.searchsorted(x1, x2, side=side, sorter=sorter)


def isin(x1: Tensor, x2: Tensor, /, *, invert: bool = False) -> Tensor:
    """Which elements of x1 are among those of x2; one of them may be a number."""
    x1, x2 = promoted(x1, x2)
    if x1.dtype in _unsigned.WIDE:
        x1, x2 = _unsigned.to_int64(x1), _unsigned.to_int64(x2)
    return _C.isin(x1, x2, invert=invert)


def where(condition: Any, x1: Tensor, x2: Tensor, /) -> Tensor:
    """x1 where the condition holds, else x2."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return _C.where(condition, x1, x2)
    return _C.where(condition, *promoted(x1, x2))  # type: ignore[return-value]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False,
            stable: bool = True) -> Tensor:  # fmt: skip
    """The order that sorts."""
    return x.argsort(dim=axis, descending=descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False,
         stable: bool = True) -> Tensor:  # fmt: skip
    """Sorted along an axis."""
    return _C.sort(x, dim=axis, descending=descending, stable=stable)[0]


def take(x: Tensor, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """Slices at the indices along an axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for {x.ndim} dimensions")
        axis = 0
    n = x.shape[axis]
    return x.index_select(axis, _C.where(indices < 0, indices + n, indices))


def take_along_axis(x: Tensor, indices: Any, /, *, axis: int = -1) -> Tensor:
    """Elements at the indices along an axis."""
    n = x.shape[axis]
    wrapped = _C.where(indices < 0, indices + n, indices)
    shape = [builtins.max(a, b) for a, b in zip(x.shape, indices.shape, strict=True)]
    shape[axis] = n
    wide = list(shape)
    wide[axis] = indices.shape[axis]
    return x.expand(shape).gather(axis, wrapped.expand(wide).to(_C.int64))


# ----- sets: nan differs from nan, so each is kept

_All = namedtuple("unique_all_result", "values indices inverse_indices counts")  # type: ignore[name-match]
_Counts = namedtuple("unique_counts_result", "values counts")  # type: ignore[name-match]
_Inverse = namedtuple("unique_inverse_result", "values inverse_indices")  # type: ignore[name-match]


def unique_all(x: Tensor, /) -> _All:
    """The distinct values, where each is first, which each element is, and how many there are."""
    flat = x.reshape(-1)
    if flat.is_complex():  # by the real parts, then by the imaginary ones
        order = flat.imag.argsort(stable=True)
        order = order[flat.real[order].argsort(stable=True)]
    else:
        order = flat.argsort(stable=True)
    ordered = flat[order]
    first = _C.ones_like(ordered, dtype=_C.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    places = first.nonzero().reshape(-1)
    inverse = _C.empty_like(order)
    inverse[order] = first.to(_C.int64).cumsum(0) - 1
    ends = _C.cat([places[1:], places.new_full((1,), flat.numel())]) if flat.numel() else places
    return _All(ordered[places], order[places], inverse.reshape(x.shape), ends - places)


def unique_counts(x: Tensor, /) -> _Counts:
    """The distinct values, and how many there are of each."""
    found = unique_all(x)
    return _Counts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> _Inverse:
    """The distinct values, and which of them each element is."""
    found = unique_all(x)
    return _Inverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values."""
    return unique_all(x).values
