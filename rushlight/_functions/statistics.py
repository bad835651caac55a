"""Covariances, histograms and reductions of pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.publish import publish
from rushlight.types import Number

__all__ = ["_segment_reduce", "corrcoef", "cov", "histogramdd", "segment_reduce"]


def _check_weights(name, weights, count, integral):
    """Refuses weights of observations that cov cannot take."""
    if weights.ndim > 1:
        raise _C.ShapeError(f"cov: {name} may have one dimension, got {list(weights.shape)}")
    exact = not (weights.is_floating_point() or weights.is_complex() or weights.dtype == _C.bool)
    if exact != integral:
        kind = "whole numbers" if integral else "floating numbers"
        raise _C.DTypeError(f"cov: {name} must hold {kind}, got {weights.dtype}")
    if weights.numel() != count:
        raise _C.ShapeError(f"cov: {name} has {weights.numel()} weights for {count} observations")
    if count and not weights.is_meta and bool((weights < 0).any()):
        raise RuntimeError(f"cov: {name} must not be negative, got {weights.min().item()}")


def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:  # fmt: skip
    """The covariance matrix of variables in rows and observations in columns.

    Arguments:
        input: (variables, observations), or one variable.
        correction: divide by n - correction.
        fweights: how often each observation counts, integers.
        aweights: how much each observation counts.

    Example:
        >>> rl.cov(rl.tensor([[0.0, 2.0], [2.0, 0.0]]), correction=0)
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise _C.ShapeError(f"cov: expected at most two dimensions, got shape {list(input.shape)}")
    if input.dtype == _C.bool:
        raise _C.DTypeError("cov: not implemented for bool tensors")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    count = x.shape[1]
    if fweights is not None:
        _check_weights("fweights", fweights, count, True)
    if aweights is not None:
        _check_weights("aweights", aweights, count, False)
    weights = aweights if fweights is None else fweights
    if fweights is not None and aweights is not None:
        weights = fweights * aweights
    total = count if weights is None else weights.sum()
    mean = (x if weights is None else x * weights).sum(1) / total
    factor = total - correction
    if aweights is not None and weights is not None and correction:
        factor = total - correction * (weights * aweights).sum() / total
    centred = x - mean[:, None]
    scaled = centred if weights is None else centred * weights
    factor = factor.clamp(min=0) if isinstance(factor, Tensor) else max(factor, 0)
    return (centred @ scaled.T.conj() / factor).squeeze()


def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables in rows.

    Arguments:
        input: (variables, observations), or one variable.

    Example:
        >>> rl.corrcoef(rl.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviations = c.diagonal().real.sqrt() if c.is_complex() else c.diagonal().sqrt()
    found = c / deviations[:, None] / deviations[None, :]
    if not found.is_complex():
        return found.clamp(-1, 1)
    return _C.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))


def histogramdd(input: Tensor, bins: int | Sequence[int] | Sequence[Tensor],
                range: Sequence[float] | None = None, *, weight: Tensor | None = None,
                density: bool = False) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """A histogram over the rows of input (..., n): the counts, and the edges of each dim.

    Arguments:
        input: (..., n), points.
        bins: how many per dim, or the edges per dim.
        range: the ends per dim, (left0, right0, left1, right1, ...).
        weight: what each point adds.
        density: scale the counts so that the volume under them is 1.

    Example:
        >>> points = rl.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
        >>> rl.histogramdd(points, bins=[3, 3], weight=rl.tensor([1.0, 2.0, 4.0])).hist
        tensor([[0., 1., 0.],
                [2., 0., 0.],
                [0., 0., 4.]])
    """
    from rushlight.linalg._results import named

    if not input.is_floating_point():
        raise RuntimeError(f"histogramdd: needs floating numbers, got {input.dtype}")
    if input.ndim < 2:
        raise RuntimeError(f"histogramdd: needs at least 2 dimensions, got {list(input.shape)}")
    n = input.shape[-1]
    points = input.reshape(-1, n)
    per_dim: list[Any] = [bins] * n if isinstance(bins, int) else list(bins)
    if len(per_dim) != n:
        raise RuntimeError(
            f"histogramdd: bins must be one for each of the {n} dims, got {len(per_dim)}"
        )
    if isinstance(per_dim[0], _C.Tensor):
        if range is not None:
            raise TypeError("histogramdd: range goes with numbers of bins, not with edges")
        edges = [b.to(input.dtype) for b in per_dim]
    else:
        if range is not None and len(range) != 2 * n:
            raise RuntimeError(f"histogramdd: range needs {2 * n} numbers, got {len(range)}")
        edges = []
        for d, count in enumerate(per_dim):
            if count <= 0:
                raise RuntimeError(f"histogramdd: bins must be positive, got {count}")
            if range is not None:
                low, high = range[2 * d], range[2 * d + 1]
            elif points.shape[0]:
                low, high = points[:, d].min().item(), points[:, d].max().item()
            else:
                low, high = 0.0, 1.0
            if not (math.isfinite(low) and math.isfinite(high)):
                raise RuntimeError(
                    f"histogramdd: the range [{low}, {high}] of dim {d} is not finite"
                )
            if low > high:
                raise RuntimeError(f"histogramdd: the range [{low}, {high}] of dim {d} is reversed")
            if low == high:
                low, high = low - 0.5, high + 0.5
            edges.append(_C.linspace(low, high, count + 1, dtype=input.dtype, device=input.device))
    shape = [e.numel() - 1 for e in edges]
    place = _C.zeros(points.shape[0], dtype=_C.int64, device=input.device)
    inside = _C.ones(points.shape[0], dtype=_C.bool, device=input.device)
    for d, e in enumerate(edges):
        x = points[:, d].contiguous()
        at = _C.searchsorted(e, x, right=True) - 1
        at = _C.where(x == e[-1], shape[d] - 1, at)  # the last bin has both edges
        inside &= (x >= e[0]) & (x <= e[-1])
        place = place * shape[d] + at.clamp(0, shape[d] - 1)
    amount = _C.ones_like(points[:, 0]) if weight is None else weight.reshape(-1).to(input.dtype)
    counts = _C.zeros(math.prod(shape), dtype=input.dtype, device=input.device)
    counts = counts.index_add(0, place[inside], amount[inside]).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for d, e in enumerate(edges):
            counts = counts / e.diff().reshape([-1 if k == d else 1 for k, _ in enumerate(edges)])
    made = _C._return_types  # type: ignore[attr-defined]  # the stub has a module under this name
    kind = made.get("histogramdd") or named("histogramdd", ("hist", "bin_edges"))
    return kind((counts, tuple(edges)))


def segment_reduce(data: Tensor, reduce: str, *, lengths: Tensor | None = None,
                   indices: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0,
                   unsafe: bool = False, initial: Number | None = None) -> Tensor:  # fmt: skip
    """Sums, means, extremes or products of consecutive pieces along a dim.

    Arguments:
        data: a tensor.
        reduce: 'sum', 'mean', 'max', 'min' or 'prod'.
        lengths: of the pieces, for each place of the dims before the axis; or
        indices: not supported; or
        offsets: where pieces begin, and the end.
        axis: the dim; lengths and offsets have the dims before it.
        unsafe: do not ask that the lengths add up to the whole; they must still lie inside.
        initial: what each piece begins with.

    Example:
        >>> rl.segment_reduce(rl.tensor([1.0, 2.0, 3.0]), "sum", lengths=rl.tensor([2, 1]))
        tensor([3., 3.])
    """
    if isinstance(reduce, str):
        reduce = reduce.removeprefix("a")  # the extremes' names in scatter_reduce
    if reduce not in ("sum", "mean", "max", "min", "prod"):
        raise RuntimeError(
            f"segment_reduce: reduce must be sum, mean, max, min or prod, got {reduce!r}"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce: indices is not there; give lengths or offsets")
    if not -data.dim() <= axis < data.dim():
        raise RuntimeError(
            f"segment_reduce: axis {axis} is out of range for a tensor of {data.dim()} dims"
        )
    rows, pieces, counts, shape = _pieces(data, lengths, offsets, axis % data.dim(), unsafe)
    given = rows.dtype
    if given in (_C.float16, _C.bfloat16):  # many small numbers are added up
        rows = rows.float()
    least, most = (
        (-math.inf, math.inf)
        if given.is_floating_point or given.is_complex
        else (_C.iinfo(given).min, _C.iinfo(given).max)
    )
    empty = {"sum": 0, "mean": 0, "prod": 1, "max": least, "min": most}[reduce]
    extreme = reduce in ("max", "min")
    start = empty if initial is None or extreme else initial
    size = (counts.shape[0], *rows.shape[1:])
    found = _C.full(size, start, dtype=rows.dtype, device=rows.device)
    if reduce in ("sum", "mean"):
        found = found.index_add(0, pieces, rows)
    else:
        kind = f"a{reduce}" if extreme else reduce
        at = pieces.reshape(-1, *[1] * (rows.dim() - 1)).expand_as(rows)
        found = found.scatter_reduce(0, at, rows, kind, include_self=True)
    if extreme and initial is not None:  # an element that equals it gets the whole gradient
        found = found.clamp_min(initial) if reduce == "max" else found.clamp_max(initial)
    if reduce == "mean":
        divisor = counts.reshape(-1, *[1] * (rows.dim() - 1))
        mean = found / divisor if initial is None else found / divisor.clamp(min=1)
        found = mean if mean.dtype == rows.dtype else mean.to(rows.dtype)
    return found.to(given).reshape(shape)


def _pieces(data, lengths, offsets, axis, unsafe):
    """The rows that belong to pieces, the number of each one's piece, how many rows a piece has,
    and the shape of what comes out."""
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce: lengths or offsets must be given")
    where = offsets if lengths is None else lengths
    if where.dtype not in (_C.int32, _C.int64):
        raise NotImplementedError(
            f"segment_reduce: lengths and offsets must be int32 or int64, got {where.dtype}"
        )
    if where.dim() != axis + 1 or tuple(where.shape[:-1]) != tuple(data.shape[:axis]):
        raise RuntimeError(
            f"segment_reduce: lengths or offsets of shape {list(where.shape)} do not go with axis "
            f"{axis} of data of shape {list(data.shape)}"
        )
    where, extent = where.long(), data.shape[axis]
    if lengths is None:
        counts, starts = where.diff(dim=-1), where[..., :-1]
    else:
        counts, starts = where, where.cumsum(-1) - where
    outside = counts.numel() and bool(
        ((counts < 0) | (starts < 0) | (starts + counts > extent)).any()
    )
    if outside or (lengths is not None and not unsafe and bool((counts.sum(-1) != extent).any())):
        raise RuntimeError(
            f"segment_reduce: the pieces must have no negative length, lie inside the {extent} "
            "elements of the axis and, given by lengths, add up to them"
        )
    first = _C.arange(math.prod(data.shape[:axis]), device=data.device) * extent
    starts = (starts.reshape(first.shape[0], -1) + first.unsqueeze(1)).reshape(-1)
    flat = counts.reshape(-1)
    pieces = _C.arange(flat.shape[0], device=data.device).repeat_interleave(flat)
    places = _C.arange(pieces.shape[0], device=data.device) - (flat.cumsum(0) - flat)[pieces]
    rows = data.flatten(0, axis)
    if lengths is None or unsafe:
        rows = rows.index_select(0, starts[pieces] + places)
    return rows, pieces, flat, (*counts.shape, *data.shape[axis + 1 :])


def _segment_reduce(*args, **kwargs):
    """segment_reduce."""
    return segment_reduce(*args, **kwargs)


publish(globals(), "", ["corrcoef", "cov", "histogramdd", "segment_reduce"])
