"""Reductions that pass over elements whose mask is False. There are no masked tensors: those names
can be found, and raise when called."""

import math

import rushlight
from rushlight import _C
from rushlight._missing import absent

__all__ = """amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm
normalize prod softmax softmin std sum var""".split()


def _lowest(dtype):
    """What loses every comparison."""
    if dtype == _C.bool:
        return False
    return -math.inf if dtype.is_floating_point else rushlight.iinfo(dtype).min


def _highest(dtype):
    if dtype == _C.bool:
        return True
    return math.inf if dtype.is_floating_point else rushlight.iinfo(dtype).max


def _filled(input, mask, value):
    """input with `value` where the mask is False."""
    if mask is None:
        return input
    if mask.dtype != _C.bool:
        mask = mask.bool()
    return _C.where(mask, input, _C.tensor(value, dtype=input.dtype, device=input.device))


def _dims(input, dim):
    if dim is None or dim == ():
        return tuple(range(input.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _summed_dtype(input, dtype):
    """Integers are summed as int64."""
    if dtype is not None:
        return dtype
    return input.dtype if input.is_floating_point() or input.is_complex() else _C.int64


def _count(input, dims, keepdim, mask):
    ones = _filled(_C.ones(input.shape, dtype=_C.int64, device=input.device), mask, 0)
    return ones.sum(dims, keepdim=keepdim)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum over dim of what the mask leaves; 0 where it leaves nothing."""
    wide = input.to(_summed_dtype(input, dtype))
    return _filled(wide, mask, 0).sum(_dims(input, dim), keepdim=keepdim)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product over dim of what the mask leaves; 1 where it leaves nothing."""
    out = _filled(input.to(_summed_dtype(input, dtype)), mask, 1)
    for d in sorted((d % max(input.dim(), 1) for d in _dims(input, dim)), reverse=True):
        out = out.prod(d, keepdim=keepdim)
    return out


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element over dim of what the mask leaves."""
    x = input if dtype is None else input.to(dtype)
    return _filled(x, mask, _lowest(x.dtype)).amax(_dims(input, dim), keepdim=keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element over dim of what the mask leaves."""
    x = input if dtype is None else input.to(dtype)
    return _filled(x, mask, _highest(x.dtype)).amin(_dims(input, dim), keepdim=keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element lies among what the mask leaves, as a number of the input's dtype
    (as in PyTorch)."""
    x = input if dtype is None else input.to(dtype)
    return _filled(x, mask, _lowest(x.dtype)).argmax(dim, keepdim=keepdim).to(x.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element lies among what the mask leaves, as a number of the input's dtype
    (as in PyTorch)."""
    x = input if dtype is None else input.to(dtype)
    return _filled(x, mask, _highest(x.dtype)).argmin(dim, keepdim=keepdim).to(x.dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log(sum(exp)) over dim of what the mask leaves; -inf where it leaves nothing."""
    x = input if dtype is None else input.to(dtype)
    if not x.is_floating_point():
        x = x.to(rushlight.get_default_dtype())
    return _filled(x, mask, -math.inf).logsumexp(_dims(input, dim), keepdim=keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean over dim of what the mask leaves; NaN where it leaves nothing."""
    x = input if dtype is None else input.to(dtype)
    if not (x.is_floating_point() or x.is_complex()):
        raise TypeError(f"masked.mean: expects floating or complex numbers, got {x.dtype}")
    total = sum(x, dim, keepdim=keepdim, mask=mask)
    return total / _count(input, _dims(input, dim), keepdim, mask)


def _variance(name, input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise ValueError(f"masked.{name}: give unbiased or correction, not both")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    x = input if dtype is None else input.to(dtype)
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(rushlight.get_default_dtype())
    dims = _dims(input, dim)
    away = x - mean(x, dims, keepdim=True, mask=mask)
    squares = (away * away.conj()).real if x.is_complex() else away.square()
    free = (_count(input, dims, keepdim, mask) - correction).clamp_min(0)
    return sum(squares, dims, keepdim=keepdim, mask=mask) / free


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance over dim of what the mask leaves."""
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation over dim of what the mask leaves."""
    return _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm over dim of what the mask leaves."""
    ord = 2.0 if ord is None else ord
    x = input if dtype is None else input.to(dtype)
    nothing = math.inf if ord == -math.inf or ord < 0 else 0
    return rushlight.linalg.vector_norm(
        _filled(x, mask, nothing), ord, _dims(input, dim), keepdim=keepdim
    )


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median over dim of what the mask leaves; NaN where it leaves nothing."""
    x = input if dtype is None else input.to(dtype)
    if not x.is_floating_point():
        raise TypeError(f"masked.median: expects floating numbers, got {x.dtype}")
    if mask is None:
        return x.median(dim, keepdim=keepdim).values
    return _filled(x, mask, math.nan).nanmedian(dim, keepdim=keepdim).values


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sums along dim of what the mask leaves."""
    return _filled(input.to(_summed_dtype(input, dtype)), mask, 0).cumsum(dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running products along dim of what the mask leaves."""
    return _filled(input.to(_summed_dtype(input, dtype)), mask, 1).cumprod(dim)


def softmax(input, dim, *, dtype=None, mask=None):
    """softmax along dim of what the mask leaves; 0 elsewhere."""
    x = input if dtype is None else input.to(dtype)
    return _filled(x, mask, -math.inf).softmax(dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log_softmax along dim of what the mask leaves; -inf elsewhere."""
    x = input if dtype is None else input.to(dtype)
    return _filled(x, mask, -math.inf).log_softmax(dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """softmax of the negated input along dim."""
    x = input if dtype is None else input.to(dtype)
    return _filled(-x, mask, -math.inf).softmax(dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """What the mask leaves divided by its norm along dim, which is at least eps; 0 elsewhere."""
    x = input if dtype is None else input.to(dtype)
    length = norm(x, ord, dim, keepdim=True, mask=mask).clamp_min(eps)
    return _filled(x, mask, 0) / length


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)); what a mask leaves out counts as -inf."""
    a, b = (x if dtype is None else x.to(dtype) for x in (input, other))
    return _C.logaddexp(_filled(a, input_mask, -math.inf), _filled(b, other_mask, -math.inf))


absent(
    globals(),
    "there are no masked tensors; use where and masked_fill",
    classes="MaskedTensor",
    functions="as_masked_tensor is_masked_tensor masked_tensor",
)
