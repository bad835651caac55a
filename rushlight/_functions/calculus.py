"""Numerical derivatives and integrals along a dim."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.publish import publish
from rushlight.types import Number


def _steps(op, y, x, dx, dim):
    """(the distances between neighbours, as a number or a tensor that broadcasts; the dim)."""
    if x is not None and dx is not None:
        raise RuntimeError(f"{op}: give x or dx, not both")
    if y.ndim == 0:
        raise RuntimeError(f"{op}: needs at least one dimension")
    if not -y.ndim <= dim < y.ndim:
        raise IndexError(f"{op}: dim {dim} is out of range for {y.ndim} dimensions "
                         f"(from {-y.ndim} to {y.ndim - 1})")  # fmt: skip
    dim %= y.ndim
    if x is None:
        return 1 if dx is None else dx, dim
    if x.ndim == 0:
        raise RuntimeError(f"{op}: x needs at least one dimension")
    if x.ndim == 1:
        if x.numel() != y.shape[dim]:
            raise RuntimeError(
                f"{op}: x has {x.numel()} points, y has {y.shape[dim]} along dim {dim}"
            )
        return x.diff().reshape([-1 if k == dim else 1 for k in range(y.ndim)]), dim
    x = x.reshape([1] * (y.ndim - x.ndim) + list(x.shape))
    return x.diff(dim=dim), dim


def _areas(op, y, x, dx, dim):
    step, dim = _steps(op, y, x, dx, dim)
    n = y.shape[dim]
    if n == 0:
        return y * 0.5, dim
    if y.dtype == _C.bool:
        raise _C.DTypeError(f"{op}: not implemented for bool tensors")
    return (y.narrow(dim, 0, n - 1) + y.narrow(dim, 1, n - 1)) * step / 2, dim


def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """The integral along dim by the trapezoidal rule, over the points x or with steps of dx.

    Arguments:
        y: values.
        x: where they were taken; or
        dx: the distance between them, 1 by default.
        dim: the dim to work along; negative numbers count from the last one.

    Example:
        >>> rl.trapezoid(rl.tensor([1.0, 2.0, 3.0]), dx=0.5)
        tensor(2.)
        >>> rl.trapezoid(rl.tensor([1.0, 3.0]), rl.tensor([0.0, 4.0]))
        tensor(8.)
    """
    areas, dim = _areas("trapezoid", y, x, dx, dim)
    return areas.sum(dim) if y.shape[dim] else y.sum(dim, dtype=y.dtype)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """The integral up to each point but the first.

    Arguments:
        y: values.
        x: where they were taken; or
        dx: the distance between them, 1 by default.
        dim: the dim to work along; negative numbers count from the last one.

    Example:
        >>> rl.cumulative_trapezoid(rl.tensor([1.0, 2.0, 3.0]), dx=0.5)
        tensor([0.7500, 2.0000])
    """
    areas, dim = _areas("cumulative_trapezoid", y, x, dx, dim)
    return areas.cumsum(dim)


def gradient(input: Tensor, *,
             spacing: Number | Tensor | Sequence[Number] | Sequence[Tensor] | None = 1,
             dim: int | Sequence[int] | None = None,
             edge_order: int = 1) -> tuple[Tensor, ...]:  # fmt: skip
    """Derivatives along each dim by differences of second order; of edge_order at the ends.

    `spacing` is one distance for all dims, one for each, or the coordinates along each.

    Arguments:
        input: values on a grid.
        spacing: distances, or coordinates per dim.
        dim: the dim or dims; None is all.
        edge_order: 1 or 2, the order at the two ends.

    Returns: a tuple, one tensor per dim.

    Example:
        >>> rl.gradient(rl.tensor([1.0, 4.0, 9.0, 16.0]), spacing=1.0, edge_order=2)
        (tensor([2., 4., 6., 8.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [_checked(input, d) for d in dims]
    if any(dims.count(d) > 1 for d in dims):
        raise RuntimeError(f"gradient: a dim appears twice in {dims}")
    if spacing is None:
        spacing = 1
    if isinstance(spacing, Tensor) and spacing.ndim > 0:
        spacing = [spacing]
    if not isinstance(spacing, list | tuple):
        spacing = [spacing] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(f"gradient: {len(dims)} dims need as many spacings, got {len(spacing)}")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(f"gradient: dim {d} needs at least {edge_order + 1} elements, "
                               f"got shape {list(input.shape)}")  # fmt: skip
    if not (input.is_floating_point() or input.is_complex()):
        input = input.to(_C.get_default_dtype())
    return tuple(_derivative(input, d, h, edge_order) for d, h in zip(dims, spacing, strict=True))


def _checked(input, d):
    if not -input.ndim <= d < input.ndim:
        raise IndexError(f"gradient: dim {d} is out of range for {input.ndim} dimensions "
                         f"(from {-input.ndim} to {input.ndim - 1})")  # fmt: skip
    return d % input.ndim


def _even_derivative(f, dim, h, edge_order):
    """The derivative along a dim whose points lie h apart."""
    n = f.shape[dim]
    first = (_at(f, dim, 1) - _at(f, dim, 0)) / h
    last = (_at(f, dim, -1) - _at(f, dim, -2)) / h
    if edge_order == 2:  # a parabola through the three points at each end
        first = (-1.5 * _at(f, dim, 0) + 2 * _at(f, dim, 1) - 0.5 * _at(f, dim, 2)) / h
        last = (1.5 * _at(f, dim, -1) - 2 * _at(f, dim, -2) + 0.5 * _at(f, dim, -3)) / h
    if n <= 2:
        return _C.cat([first, last], dim)
    middle = (_at(f, dim, 2, n - 2) - _at(f, dim, 0, n - 2)) / (2 * h)
    return _C.cat([first, middle, last], dim)


def _at(t, dim, start, length=1):
    """A piece along a dim, whose start may count from the end."""
    return t.narrow(dim, start if start >= 0 else t.shape[dim] + start, length)


def _derivative(f, dim, spacing, edge_order):
    n = f.shape[dim]
    if isinstance(spacing, Tensor) and spacing.ndim > 0:
        if spacing.ndim != 1 or spacing.numel() != n:
            raise RuntimeError(f"gradient: dim {dim} has {n} elements, its coordinates have shape "
                               f"{list(spacing.shape)}")  # fmt: skip
        steps = spacing.diff().reshape([-1 if k == dim else 1 for k in range(f.ndim)])
    else:
        return _even_derivative(f, dim, spacing, edge_order)
    slopes = f.diff(dim=dim) / steps  # between neighbours
    first, last = _at(slopes, dim, 0), _at(slopes, dim, -1)
    parts = [first]
    if n > 2:
        # The mean of both slopes, each weighted with the step on the other side.
        before, after = _at(steps, dim, 0, n - 2), _at(steps, dim, 1, n - 2)
        left, right = _at(slopes, dim, 0, n - 2), _at(slopes, dim, 1, n - 2)
        parts.append((left * after + right * before) / (before + after))
    parts.append(last)
    if edge_order == 2:
        # A parabola through the three points at each end.
        step, other = _at(steps, dim, 0), _at(steps, dim, 1)
        parts[0] = first - (_at(slopes, dim, 1) - first) / (step + other) * step
        step, other = _at(steps, dim, -1), _at(steps, dim, -2)
        parts[-1] = last + (last - _at(slopes, dim, -2)) / (step + other) * step
    return _C.cat(parts, dim)


publish(globals(), "", ["cumulative_trapezoid", "gradient", "trapezoid"])
trapz = trapezoid
