"""Quantiles: composites over sort."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out
from rushlight._names.publish import publish

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _checked(op, input, q, dim, interpolation):
    if input.dtype not in (_C.float32, _C.float64):
        raise _C.DTypeError(f"{op}: needs float32 or float64, got {input.dtype}")
    if input.numel() == 0:
        raise RuntimeError(f"{op}: an empty tensor has no quantiles (shape {list(input.shape)})")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(f"{op}: interpolation must be one of {_INTERPOLATIONS}, "
                           f"got {interpolation!r}")  # fmt: skip
    known = q
    if not isinstance(q, Tensor):
        known = _C.tensor(q, dtype=input.dtype)
        q = _C.full((), q, dtype=input.dtype, device=input.device) if known.ndim == 0 else (
            known.to(input.device))  # fmt: skip
    if q.ndim > 1:
        raise RuntimeError(f"{op}: q must be a number or a vector, got shape {list(q.shape)}")
    if q.dtype != input.dtype:
        raise _C.DTypeError(f"{op}: q is {q.dtype}, the input is {input.dtype}")
    if q.device != input.device:
        raise _C.DeviceError(f"{op}: q is on {q.device}, the input is on {input.device}")
    # A GPU is not waited for: there the index that comes of it is found out of range later.
    if not (known.is_meta or known.is_cuda) and not bool(((known >= 0) & (known <= 1)).all()):
        raise RuntimeError(f"{op}: q must lie in [0, 1], got {known.tolist()}")
    rank = max(input.ndim, 1)
    if dim is not None and not -rank <= dim < rank:
        raise IndexError(f"{op}: dim {dim} is out of range (from {-rank} to {rank - 1})")
    return q


def _ranks(rows, q, ignore_nan):
    """Where among the sorted elements of each row the quantiles lie; NaNs are sorted last."""
    last = rows.shape[-1] - 1
    if ignore_nan:
        return (q * ((~rows.isnan()).sum(-1, keepdim=True) - 1)).clamp_min(0)
    spoiled = rows[..., -1:].isnan()
    return _C.where(spoiled, _C.full_like(q, last), q * last)


def _quantile(op, input, q, dim, keepdim, interpolation, ignore_nan, out):
    q = _checked(op, input, q, dim, interpolation)
    flat = dim is None or input.ndim == 0
    rows = (input.reshape(-1) if flat else input.movedim(dim, -1)).sort(-1).values
    ranks = _ranks(rows, q.reshape(-1), ignore_nan)
    if interpolation in ("lower", "higher", "nearest"):
        round_ = {"lower": "floor", "higher": "ceil", "nearest": "round"}[interpolation]
        result = rows.gather(-1, getattr(ranks, round_)().long())
    else:
        below = ranks.floor()
        weight = _C.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        result = rows.gather(-1, below.long()).lerp(rows.gather(-1, ranks.ceil().long()), weight)
    if keepdim:
        kept = [1] * input.ndim if flat else [1 if k == dim % input.ndim else n
                                              for k, n in enumerate(input.shape)]  # fmt: skip
        result = result.movedim(-1, 0).reshape([q.numel(), *kept])
    else:
        result = result.movedim(-1, 0)
    if q.ndim == 0:
        result = result.squeeze(0)
    return write_out(op, result, out)


@autocast_policy(cpu="float32")
def quantile(input: Tensor, q: float | Sequence[float] | Tensor, dim: int | None = None,
             keepdim: bool = False, *, interpolation: str = "linear",
             out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The q-quantiles of all elements or along dim; NaN where there is a NaN.

    Arguments:
        input: floating numbers.
        q: from 0 to 1, a number or a vector of them.
        dim: the dim; None is the flattened input.
        keepdim: keep each reduced dim with size 1.
        interpolation: between neighbours: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'.
        out: a tensor to write the result into.

    Example:
        >>> x = rl.tensor([1.0, 2.0, 3.0, 4.0])
        >>> rl.quantile(x, 0.5), rl.quantile(x, rl.tensor([0.25, 0.9]), interpolation="lower")
        (tensor(2.5000), tensor([1., 3.]))
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False, out)


@autocast_policy(cpu="float32")
def nanquantile(input: Tensor, q: float | Sequence[float] | Tensor, dim: int | None = None,
                keepdim: bool = False, *, interpolation: str = "linear",
                out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The q-quantiles of the elements that are not NaN.

    Arguments:
        input: floating numbers.
        q: from 0 to 1, a number or a vector of them.
        dim: the dim; None is the flattened input.
        keepdim: keep each reduced dim with size 1.
        interpolation: as for quantile.
        out: a tensor to write the result into.

    Example:
        >>> rl.nanquantile(rl.tensor([1.0, float("nan"), 3.0]), 0.5, dim=0)
        tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True, out)


def _method(function):
    def method(self: Tensor, q: float | Sequence[float] | Tensor, dim: int | None = None,
               keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:  # fmt: skip
        return function(self, q, dim, keepdim, interpolation=interpolation)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    setattr(Tensor, function.__name__, method)


publish(globals(), "", ["nanquantile", "quantile"])
_method(quantile)
_method(nanquantile)
