"""Reductions and normalisations that leave masked elements out: ``mask`` is true where an element
counts. Masked tensors as a class are not there."""

from __future__ import annotations

from math import inf, nan

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight._names.publish import publish
from rushlight.types import _dtype

_FUNCTIONS = """amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median
norm normalize prod softmax softmin std sum var""".split()


def _dims(x, dim):
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return tuple(range(x.ndim))
    dims, rank = (dim,) if isinstance(dim, int) else tuple(dim), max(x.ndim, 1)
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(f"dim {d} is out of range for {x.ndim} dimensions")
    return tuple(d % rank for d in dims if x.ndim)


def _masked(input, mask, fill, dtype=None):
    """input with `fill` where the mask is false."""
    if dtype is not None:
        input = input.to(dtype)
    if mask is None:
        return input
    if not isinstance(mask, _C.Tensor) or mask.dtype != _C.bool:
        raise TypeError("mask must be a bool tensor")
    return _C.where(mask, input, _C.full((), fill, dtype=input.dtype, device=input.device))


def _lowest(input):
    if input.is_floating_point():
        return -inf
    return 0 if input.dtype == _C.bool else _C.iinfo(input.dtype).min


def _highest(input):
    if input.is_floating_point():
        return inf
    return 1 if input.dtype == _C.bool else _C.iinfo(input.dtype).max


def _counts(input, mask, dims, keepdim):
    """How many elements count along the dims."""
    ones = _C.ones_like(input, dtype=_C.int64) if mask is None else mask.expand(input.shape)
    return ones.to(_C.int64).sum(dims, keepdim=keepdim)


def _sum_dtype(input, dtype):
    wide = not (input.is_floating_point() or input.is_complex())
    return _C.int64 if dtype is None and wide else dtype


def sum(input: Tensor, dim: int | tuple[int, ...] | None = None, *, keepdim: bool = False,
        dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The sum of the elements that count; 0 where there is none.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.sum(x, dim=1, mask=mask)
        tensor([3.])
    """
    filled = _masked(input, mask, 0, _sum_dtype(input, dtype))
    return filled.sum(_dims(input, dim), keepdim=keepdim)


def prod(input: Tensor, dim: int | tuple[int, ...] | None = None, *, keepdim: bool = False,
         dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The product of the elements that count; 1 where there is none.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.prod(x, dim=1, mask=mask)
        tensor([2.])
    """
    result = _masked(input, mask, 1, _sum_dtype(input, dtype))
    for d in sorted(_dims(input, dim), reverse=True):
        result = result.prod(d, keepdim=keepdim)
    return result


def cumsum(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Sums so far; what is masked adds nothing.

    Arguments:
        input: a tensor.
        dim: along which dim.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.cumsum(x, 1, mask=mask)
        tensor([[1., 3., 3.]])
    """
    dtype = dtype or input.dtype
    return _masked(input, mask, 0).cumsum(dim, dtype=dtype).to(dtype)


def cumprod(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Products so far; what is masked multiplies by 1.

    Arguments:
        input: a tensor.
        dim: along which dim.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.cumprod(x, 1, mask=mask)
        tensor([[1., 2., 2.]])
    """
    dtype = dtype or input.dtype
    return _masked(input, mask, 1).cumprod(dim, dtype=dtype).to(dtype)


def amax(input: Tensor, dim: int | tuple[int, ...] | None = None, *, keepdim: bool = False,
         dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The largest element that counts; the lowest number where there is none.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.amax(x, dim=1, mask=mask)
        tensor([2.])
    """
    return _masked(input, mask, _lowest(input), dtype).amax(_dims(input, dim), keepdim=keepdim)


def amin(input: Tensor, dim: int | tuple[int, ...] | None = None, *, keepdim: bool = False,
         dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The smallest element that counts; the highest number where there is none.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.amin(-x, dim=1, mask=mask)
        tensor([-2.])
    """
    return _masked(input, mask, _highest(input), dtype).amin(_dims(input, dim), keepdim=keepdim)


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool = False,
           dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Where the largest element that counts is, in PyTorch's way in the input's dtype.

    Arguments:
        input: a tensor.
        dim: along which dim; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.argmax(x, dim=1, mask=mask)
        tensor([1.])
    """
    found = _masked(input, mask, _lowest(input), dtype).argmax(dim, keepdim=keepdim)
    return found.to(dtype or input.dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool = False,
           dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Where the smallest element that counts is, in PyTorch's way in the input's dtype.

    Arguments:
        input: a tensor.
        dim: along which dim; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.argmin(-x, dim=1, mask=mask)
        tensor([1.])
    """
    found = _masked(input, mask, _highest(input), dtype).argmin(dim, keepdim=keepdim)
    return found.to(dtype or input.dtype)


def mean(input: Tensor, dim: int | tuple[int, ...] | None = None, *, keepdim: bool = False,
         dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The mean of the elements that count; nan where there is none.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.mean(x, dim=1, mask=mask)
        tensor([1.5000])
    """
    dims = _dims(input, dim)
    total = sum(input, dims, keepdim=keepdim, dtype=dtype or input.dtype, mask=mask)
    if not (total.is_floating_point() or total.is_complex()):
        raise ValueError(f"masked.mean: needs floating or complex numbers, got {total.dtype}")
    return total / _counts(input, mask, dims, keepdim)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: _dtype | None = None,
           mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The lower median of the elements that count.

    Arguments:
        input: a tensor.
        dim: along which dim.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.median(x, dim=1, mask=mask)
        tensor([1.])
    """
    return _masked(input, mask, nan, dtype).nanmedian(dim, keepdim=keepdim).values


def _variance(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise ValueError("only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    dims = _dims(input, dim)
    if dtype is None:
        inexact = input.is_floating_point() or input.is_complex()
        dtype = input.dtype if inexact else _C.float32
    x = input.to(dtype)
    count = _counts(x, mask, dims, True)
    centre = sum(x, dims, keepdim=True, mask=mask) / count
    squares = (x - centre) * (x - centre).conj()
    total = sum(squares, dims, keepdim=keepdim, mask=mask)
    left = (_counts(x, mask, dims, keepdim) - correction).clamp(min=0)
    return (total / left).to(dtype)


def var(input: Tensor, dim: int | tuple[int, ...] | None = None, unbiased: bool | None = None, *,
        correction: int | float | None = None, keepdim: bool = False, dtype: _dtype | None = None,
        mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The variance of the elements that count.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        unbiased: True is a correction of 1, False of 0.
        correction: what is taken from the count that the sum is divided by.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.var(x, dim=1, correction=0, mask=mask)
        tensor([0.2500])
    """
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input: Tensor, dim: int | tuple[int, ...] | None = None, unbiased: bool | None = None, *,
        correction: int | None = None, keepdim: bool = False, dtype: _dtype | None = None,
        mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The standard deviation of the elements that count.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        unbiased: True is a correction of 1, False of 0.
        correction: what is taken from the count that the sum is divided by.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.std(x, dim=1, correction=0, mask=mask)
        tensor([0.5000])
    """
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def norm(input: Tensor, ord: float | None = 2.0, dim: int | tuple[int, ...] | None = None, *,
         keepdim: bool = False, dtype: _dtype | None = None,
         mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """The vector norm of the elements that count.

    Arguments:
        input: a tensor.
        ord: which norm, 2 unless told otherwise.
        dim: along which dims; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.norm(x, 1.0, dim=1, mask=mask)
        tensor([3.])
    """
    fill = inf if ord == -inf or (ord is not None and ord < 0) else 0.0
    filled = _masked(input, mask, fill, dtype)
    return _C._vector_norm(filled, 2.0 if ord is None else ord, _dims(input, dim), keepdim)


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12,
              dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """input over its norm along dim.

    Arguments:
        input: a tensor.
        ord: which norm.
        dim: along which dim.
        eps: the least number that is divided by.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.normalize(x, 1.0, 1, mask=mask)
        tensor([[0.3333, 0.6667, 0.0000]])
    """
    filled = _masked(input, mask, 0, dtype)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return filled / size.clamp(min=eps)


def softmax(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """softmax over the elements that count; the others get 0.

    Arguments:
        input: a tensor.
        dim: along which dim.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.softmax(x, 1, mask=mask)
        tensor([[0.2689, 0.7311, 0.0000]])
    """
    return _masked(input, mask, -inf, dtype).softmax(dim)


def log_softmax(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of softmax over the elements that count.

    Arguments:
        input: a tensor.
        dim: along which dim.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.log_softmax(x, 1, mask=mask)
        tensor([[-1.3133, -0.3133,    -inf]])
    """
    return _masked(input, mask, -inf, dtype).log_softmax(dim)


def softmin(
    input: Tensor, dim: int, *, dtype: _dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """softmax of the negated elements that count.

    Arguments:
        input: a tensor.
        dim: along which dim.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.softmin(x, 1, mask=mask)
        tensor([[0.7311, 0.2689, 0.0000]])
    """
    return (-_masked(input, mask, inf, dtype)).softmax(dim)


def logsumexp(input: Tensor, dim: int | tuple[int, ...] | None = None, *, keepdim: bool = False,
              dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """log(sum(exp)) of the elements that count; -inf where there is none.

    Arguments:
        input: a tensor.
        dim: along which dims; None for all.
        keepdim: keep them with size 1.
        dtype: convert to it first; None keeps the input's.
        mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.logsumexp(x, dim=1, mask=mask)
        tensor([2.3133])
    """
    filled = _masked(input, mask, -inf if input.is_complex() else _lowest(input))
    return filled.logsumexp(_dims(input, dim), keepdim=keepdim).to(dtype or input.dtype)


def logaddexp(input: Tensor, other: Tensor, *, dtype: _dtype | None = None,
              input_mask: Tensor | None = None,
              other_mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """log(exp(input) + exp(other)); what is masked adds nothing.

    Arguments:
        input: a tensor.
        other: the other operand.
        dtype: convert to it first; None keeps the input's.
        input_mask, other_mask: true where an element counts; None counts all.

    Example:
        >>> x, mask = rl.tensor([[1.0, 2.0, 4.0]]), rl.tensor([[True, True, False]])
        >>> rl.masked.logaddexp(x, x, other_mask=mask)
        tensor([[1.6931, 2.6931, 4.0000]])
    """
    return _C.logaddexp(
        _masked(input, input_mask, -inf, dtype), _masked(other, other_mask, -inf, dtype)
    )


def _input_mask(input, *_, mask=None, **__):
    """The mask of a call of one of these functions, in the shape of its input."""
    if mask is None:
        raise ValueError("_input_mask: the call has no mask")
    return mask.to(_C.bool).expand(input.shape)


def _output_mask(op, input, *args, **options):
    """Which results of a call of one of these functions come from an element that counts."""
    name = getattr(op, "__name__", op)
    if name not in _FUNCTIONS:
        raise ValueError(f"_output_mask: {name} is no function of rushlight.masked")
    mask = _input_mask(input, **options)
    if name in ("cumprod", "cumsum", "log_softmax", "normalize", "softmax", "softmin"):
        return mask
    given = args[1:] if name == "norm" else args
    dims = _dims(input, given[0] if given else options.get("dim"))
    return mask.sum(dims, keepdim=options.get("keepdim", False)) > 0


publish(globals(), "masked", _FUNCTIONS)
__all__ = list(_FUNCTIONS)
fill(globals())
