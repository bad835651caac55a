"""Transforms of each element by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._transform import SameKind, Transform
from rushlight.nn import functional as F

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint


class _Rising(SameKind):
    """Transforms without parameters whose result grows with x."""

    bijective = True
    sign = +1


class ExpTransform(_Rising):
    """y = exp(x).

    Arguments:
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.ExpTransform(cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([1.6487, 2.7183])
    """

    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, on positive numbers.

    Arguments:
        exponent: the exponent.
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.PowerTransform(rl.tensor(2.0), cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([0.2500, 1.0000])
    """

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, _C.Tensor) else _C.tensor(float(exponent))

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _broadcast_shapes(*shapes):
    from rushlight.functional import broadcast_shapes

    return broadcast_shapes(*shapes)


class SigmoidTransform(_Rising):
    """y = 1 / (1 + exp(-x)).

    Arguments:
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.SigmoidTransform(cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([0.6225, 0.7311])
    """

    codomain = constraints.unit_interval

    def _call(self, x):
        limits = _C.finfo(x.dtype)
        return _C.sigmoid(x).clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y):
        limits = _C.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Rising):
    """y = log(1 + exp(x)).

    Arguments:
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.SoftplusTransform(cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([0.9741, 1.3133])
    """

    codomain = constraints.positive

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_Rising):
    """y = tanh(x), with a Jacobian that stays exact where tanh is flat.

    Arguments:
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.TanhTransform(cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([0.4621, 0.7616])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x))
        return 2.0 * (0.6931471805599453 - x - F.softplus(-2.0 * x))


class AbsTransform(SameKind):
    """y = |x|; not invertible.

    Arguments:
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.AbsTransform(cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([0.5000, 1.0000])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale x; the last event_dim dims are one value.

    Arguments:
        loc: the summand.
        scale: the factor.
        event_dim: how many last dims are one value.
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.AffineTransform(1.0, 2.0, cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([2., 3.])
    """

    bijective = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return (
            constraints.independent(constraints.real, self.event_dim)
            if self.event_dim
            else (constraints.real)
        )

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return self.domain

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and all(
            _equal(getattr(self, name), getattr(other, name)) for name in ("loc", "scale")
        )

    __hash__ = object.__hash__

    @property
    def sign(self) -> Tensor | int:
        if isinstance(self.scale, int | float):
            return 1 if self.scale > 0 else -1 if self.scale < 0 else 0
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        import math

        if isinstance(self.scale, int | float):
            result = _C.full_like(x, math.log(abs(self.scale)))
        else:
            result = _C.abs(self.scale).log()
        shape = x.shape
        if self.event_dim:
            result = result.expand(shape) if result.dim() < self.event_dim else result
            result = result.reshape((*result.size()[: -self.event_dim], -1)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def _widened(self, shape):
        sizes = [getattr(v, "shape", ()) for v in (self.loc, self.scale)]
        return _broadcast_shapes(shape, *sizes)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._widened(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._widened(shape)


def _equal(a, b):
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b
    return bool(_C.as_tensor(a == b).all())
