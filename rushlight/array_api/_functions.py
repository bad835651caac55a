"""Dtypes, shapes, reductions, searching, sorting and sets."""

import builtins
from collections import namedtuple

from rushlight import _C
from rushlight._C import Tensor
from rushlight.array_api import _unsigned
from rushlight.array_api._elementwise import promoted
from rushlight.array_api._info import dtypes_of_kind
from rushlight.linalg import matmul as _matmul
from rushlight.linalg import vecdot as _vecdot

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


def astype(x, dtype, /, *, copy=True, device=None):
    """x in another dtype; a copy unless copy is False and nothing has to change."""
    if x.is_complex() and not dtype.is_complex and dtype != _C.bool:
        raise TypeError(f"astype: complex numbers do not become {dtype}; take real(x) first")
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def can_cast(from_, to, /):
    """Whether values of one dtype are kept by the other under promotion."""
    from_ = from_.dtype if isinstance(from_, Tensor) else from_
    kinds = ("bool", "integral", ("real floating", "complex floating"))
    if not builtins.any(isdtype(from_, k) and isdtype(to, k) for k in kinds):
        return False  # the standard promotes within a kind only
    try:
        return _unsigned.promote(from_, to) == to
    except TypeError:
        return False


def finfo(type, /):
    """Limits of a floating dtype."""
    return _C.finfo(type.dtype if isinstance(type, Tensor) else type)


def iinfo(type, /):
    """Limits of an integer dtype."""
    return _C.iinfo(type.dtype if isinstance(type, Tensor) else type)


def isdtype(dtype, kind):
    """Whether a dtype is of a kind, or one of several."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        return dtype in dtypes_of_kind(kind).values()
    return dtype == kind


def result_type(*arrays_and_dtypes):
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


def broadcast_arrays(*arrays):
    """All arrays in their common shape."""
    from rushlight.functional import broadcast_tensors

    return tuple(broadcast_tensors(*arrays))


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes broadcast to."""
    from rushlight.functional import broadcast_shapes as run

    return tuple(run(*shapes)) if shapes else ()


def broadcast_to(x, /, shape):
    """x in a larger shape."""
    return x.broadcast_to(tuple(shape))


def concat(arrays, /, *, axis=0):
    """Arrays one after the other."""
    arrays = promoted(*arrays)
    if axis is None:
        return _C.cat([a.reshape(-1) for a in arrays], 0)
    return _C.cat(arrays, axis)


def expand_dims(x, /, *, axis=0):
    """New axes of size 1; several are places in the result."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
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


def flip(x, /, *, axis=None):
    """The order of elements turned round."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return _C.flip(x, tuple(axes))


def moveaxis(x, source, destination, /):
    """Axes moved to other places."""
    return x.movedim(source, destination)


def permute_dims(x, /, axes):
    """The axes in another order."""
    return x.permute(tuple(axes))


def repeat(x, repeats, /, *, axis=None):
    """Each element several times."""
    return x.repeat_interleave(repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """Another shape; copy=False raises where the memory does not allow it."""
    shape = tuple(shape)
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def roll(x, /, shift, *, axis=None):
    """Elements moved round."""
    return _C.roll(x, shift, [] if axis is None else axis)


def squeeze(x, /, axis):
    """Axes of size 1 taken away."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        if not -x.ndim <= a < x.ndim:
            raise IndexError(f"squeeze: axis {a} is out of range for {x.ndim} dimensions")
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} has size {x.shape[a]}, not 1")
    return x.squeeze(axes)


def stack(arrays, /, *, axis=0):
    """Arrays along a new axis."""
    return _C.stack(promoted(*arrays), axis)


def tile(x, repetitions, /):
    """x several times along each axis."""
    return x.tile(tuple(repetitions))


def unstack(x, /, *, axis=0):
    """The slices along an axis."""
    return tuple(x.unbind(axis))


def matrix_transpose(x, /):
    """The last two axes exchanged."""
    return x.mT


# ----- products


def matmul(x1, x2, /):
    """The matrix product."""
    return _as_integers(_matmul, *promoted(x1, x2))


def _as_integers(f, x1, x2):
    """f of two tensors, wide unsigned ones by way of int64."""
    if x1.dtype not in _unsigned.WIDE:
        return f(x1, x2)
    found = f(_unsigned.to_int64(x1), _unsigned.to_int64(x2))
    return _unsigned.from_int64(found, x1.dtype)


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over axes."""
    from rushlight.functional import tensordot as run

    return _as_integers(lambda a, b: run(a, b, dims=axes), *promoted(x1, x2))


def vecdot(x1, x2, /, *, axis=-1):
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


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum along axes."""
    wide = _wide(x, dtype)
    if axis == ():
        return x.to(wide)
    if wide == _C.uint64:
        return x.to(_C.int64).sum(_axes(axis), keepdim=keepdims).to(wide)
    return x.sum(_axes(axis), keepdim=keepdims, dtype=wide)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product along axes."""
    wide = _wide(x, dtype)
    result = x.to(_C.int64 if wide == _C.uint64 else wide)
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for a in sorted((a % x.ndim for a in axes), reverse=True):
        result = result.prod(a, keepdim=keepdims)
    return result.to(wide)


def mean(x, /, *, axis=None, keepdims=False):
    """The mean along axes."""
    return x if axis == () else x.mean(_axes(axis), keepdim=keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance along axes."""
    if axis == ():
        return (
            (x - x) / builtins.max(1.0 - correction, 0.0) if correction != 1 else x * float("nan")
        )
    return _C.var(x, _axes(axis), correction=correction, keepdim=keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation along axes."""
    if axis == ():
        return var(x, axis=(), correction=correction)
    return _C.std(x, _axes(axis), correction=correction, keepdim=keepdims)


def max(x, /, *, axis=None, keepdims=False):
    """The largest element along axes."""
    return x if axis == () else x.amax(() if axis is None else _axes(axis), keepdim=keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The smallest element along axes."""
    return x if axis == () else x.amin(() if axis is None else _axes(axis), keepdim=keepdims)


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements along axes are true."""
    return x.to(_C.bool) if axis == () else x.to(_C.bool).all(_axes(axis), keepdim=keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Whether any element along axes is true."""
    return x.to(_C.bool) if axis == () else x.to(_C.bool).any(_axes(axis), keepdim=keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
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


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of the elements so far."""
    return _cumulative(_C.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of the elements so far."""
    return _cumulative(_C.cumprod, x, axis, dtype, include_initial, 1)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours."""
    if x.dtype not in _unsigned.WIDE:
        return _C.diff(x, n, axis, prepend, append)
    ends = [None if t is None else _unsigned.to_int64(t) for t in (prepend, append)]
    return _unsigned.from_int64(_C.diff(_unsigned.to_int64(x), n, axis, *ends), x.dtype)


# ----- searching and sorting


def argmax(x, /, *, axis=None, keepdims=False):
    """Where the largest element is."""
    return x.argmax(axis, keepdim=keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """Where the smallest element is."""
    return x.argmin(axis, keepdim=keepdims)


def nonzero(x, /):
    """Where the elements are not zero, one tensor an axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: a 0-d tensor has no axes")
    return tuple(x.nonzero().unbind(1))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where elements of x2 (or one number) go into the sorted x1."""
    x1, x2 = promoted(x1, x2)
    if x1.dtype in _unsigned.WIDE:
        x1, x2 = _unsigned.ordered(x1), _unsigned.ordered(x2)
    return _C.searchsorted(x1, x2, side=side, sorter=sorter)


def isin(x1, x2, /, *, invert=False):
    """Which elements of x1 are among those of x2; one of them may be a number."""
    x1, x2 = promoted(x1, x2)
    if x1.dtype in _unsigned.WIDE:
        x1, x2 = _unsigned.to_int64(x1), _unsigned.to_int64(x2)
    return _C.isin(x1, x2, invert=invert)


def where(condition, x1, x2, /):
    """x1 where the condition holds, else x2."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return _C.where(condition, x1, x2)
    return _C.where(condition, *promoted(x1, x2))


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The order that sorts."""
    return x.argsort(dim=axis, descending=descending, stable=stable)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Sorted along an axis."""
    return _C.sort(x, dim=axis, descending=descending, stable=stable)[0]


def take(x, indices, /, *, axis=None):
    """Slices at the indices along an axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for {x.ndim} dimensions")
        axis = 0
    n = x.shape[axis]
    return x.index_select(axis, _C.where(indices < 0, indices + n, indices))


def take_along_axis(x, indices, /, *, axis=-1):
    """Elements at the indices along an axis."""
    n = x.shape[axis]
    wrapped = _C.where(indices < 0, indices + n, indices)
    shape = [builtins.max(a, b) for a, b in zip(x.shape, indices.shape, strict=True)]
    shape[axis] = n
    wide = list(shape)
    wide[axis] = indices.shape[axis]
    return x.expand(shape).gather(axis, wrapped.expand(wide).to(_C.int64))


# ----- sets: nan differs from nan, so each is kept

_All = namedtuple("unique_all_result", "values indices inverse_indices counts")
_Counts = namedtuple("unique_counts_result", "values counts")
_Inverse = namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x, /):
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


def unique_counts(x, /):
    """The distinct values, and how many there are of each."""
    found = unique_all(x)
    return _Counts(found.values, found.counts)


def unique_inverse(x, /):
    """The distinct values, and which of them each element is."""
    found = unique_all(x)
    return _Inverse(found.values, found.inverse_indices)


def unique_values(x, /):
    """The distinct values."""
    return unique_all(x).values
