"""Special functions of distributions that are not operators yet."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import Function
from rushlight.autograd.function import once_differentiable

_TERMS = 400


def _series(a, x):
    """P(a, x) by its power series; good for x < a + 1."""
    term = 1 / a
    total = term
    for n in range(1, _TERMS):
        term = term * x / (a + n)
        total = total + term
        if n % 16 == 0 and bool((term <= 1e-17 * total).all()):
            break
    return total * _front(a, x)


def _fraction(a, x):
    """Q(a, x) by Legendre's continued fraction (Lentz's method); good for x > a + 1."""
    b = x + 1 - a
    d = 1 / b
    c, f = _C.full_like(b, 1e300), d
    for i in range(1, _TERMS):
        an = -i * (i - a)
        b = b + 2
        d = 1 / (an * d + b)
        c = b + an / c
        step = c * d
        f = f * step
        if i % 16 == 0 and bool(((step - 1).abs() <= 1e-16).all()):
            break
    return f * _front(a, x)


def _front(a, x):
    return _C.exp(_C.xlogy(a, x) - x - _C.lgamma(a))


class _GammaInc(Function):
    """The regularised lower incomplete gamma function, in float64."""

    @staticmethod
    def forward(ctx, a, x):
        ctx.save_for_backward(a, x)
        dtype = a.dtype
        a, x = _C_broadcast(a.double(), x.double())
        left = x < a + 1
        low = _series(a, _C.where(left, x, a.clamp(max=1.0)))
        high = 1 - _fraction(a, _C.where(left, a + 2, x))
        return _C.where(left, low, high).clamp(0, 1).to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        density = _C.exp(_C.xlogy(a - 1, x) - x - _C.lgamma(a))
        # A quantile moves with a; at a fixed x the probability moves the other way.
        for_a = -density * _C._standard_gamma_grad(a, x) if ctx.needs_input_grad[0] else None
        for_x = density if ctx.needs_input_grad[1] else None
        return (None if for_a is None else _sum_to(grad * for_a, a),
                None if for_x is None else _sum_to(grad * for_x, x))  # fmt: skip


def _sum_to(value, like):
    return value.sum_to_size(like.shape) if value.shape != like.shape else value


def _C_broadcast(*tensors):
    from rushlight.functional import broadcast_tensors

    return broadcast_tensors(*tensors)


def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """P(a, x), the regularised lower incomplete gamma function; differentiable once."""
    return _GammaInc.apply(a, x)


# log of the modified Bessel functions of orders 0 and 1, by the polynomials of Abramowitz and
# Stegun 9.8.1 to 9.8.4.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_LARGE = (
    (0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1,
     0.2635537e-1, -0.1647633e-1, 0.392377e-2),
    (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1,
     -0.2895312e-1, 0.1787654e-1, -0.420059e-2),
)  # fmt: skip


def _polynomial(coefficients, y):
    result = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = c + y * result
    return result


def log_bessel_i(order: int, x: Tensor) -> Tensor:
    """log I0(x) or log I1(x), x >= 0."""
    y = (x / 3.75) ** 2
    small = _polynomial(_SMALL[order], y)
    small = small.log() + (x.abs().log() if order else 0)
    y = 3.75 / x
    large = x - 0.5 * x.log() + _polynomial(_LARGE[order], y).log()
    return _C.where(x < 3.75, small, large)
