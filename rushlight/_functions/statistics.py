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
    """Sums, means, extremes or products of consecutive pieces of a dim.

    Arguments:
        data: a tensor.
        reduce: 'sum', 'mean', 'max', 'min' or 'prod'.
        lengths: of the pieces; or
        indices: not supported; or
        offsets: where pieces begin, and the end.
        axis: the dim; lengths and offsets have the dims before it, too.
        unsafe: do not check the lengths.
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
    if lengths is None:
        if offsets is None:
            raise RuntimeError("segment_reduce: lengths or offsets must be given")
        lengths = offsets.diff()
    axis = axis + data.ndim if axis < 0 else axis
    if axis >= data.ndim or lengths.ndim != axis + 1 or lengths.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce: along axis {axis} of shape {list(data.shape)} lengths need the sizes "
            f"of the dims before it, and one more dim; they have shape {list(lengths.shape)}"
        )
    if axis > 0 and data.shape[0] == 0:
        return data.new_empty((*lengths.shape, *data.shape[axis + 1 :]))
    if axis > 0:
        rows = [
            segment_reduce(d, reduce, lengths=n, axis=axis - 1, unsafe=unsafe, initial=initial)
            for d, n in zip(data.unbind(), lengths.unbind(), strict=True)
        ]
        return _C.stack(rows)
    sizes = lengths.tolist()
    if unsafe and all(n >= 0 for n in sizes):
        data = data[: sum(sizes)]  # what lies behind the last piece belongs to none
    empty = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "mean": math.nan}[reduce]
    pieces = []
    for piece in data.split(sizes, 0):
        if piece.shape[0] == 0:
            value = empty if initial is None else initial
            pieces.append(_C.full(data.shape[1:], value, dtype=data.dtype, device=data.device))
            continue
        if reduce in ("max", "min"):
            found = piece.amax(0) if reduce == "max" else piece.amin(0)
            if initial is not None:
                found = found.clamp_min(initial) if reduce == "max" else found.clamp_max(initial)
        elif reduce == "prod":
            found = piece.prod(0) * (1 if initial is None else initial)
        else:
            found = piece.sum(0) + (0 if initial is None else initial)
            if reduce == "mean":
                found = found / piece.shape[0]
        pieces.append(found)
    return _C.stack(pieces)


def _segment_reduce(*args, **kwargs):
    """segment_reduce."""
    return segment_reduce(*args, **kwargs)


publish(globals(), "", ["corrcoef", "cov", "histogramdd", "segment_reduce"])
