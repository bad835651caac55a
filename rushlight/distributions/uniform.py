"""The uniform distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["Uniform"]


class Uniform(Distribution):
    """All of [low, high) alike.

    Arguments:
        low: the lower bound.
        high: the upper bound, which is not drawn.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Uniform(-1.0, 3.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(1.), tensor(-1.3863))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    has_rsample = True
    _expands = ("low", "high")

    def __init__(
        self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool(_C.lt(self.low, self.high).all()):
            raise ValueError(f"Uniform: low must be below high, got low={low} and high={high}")

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self.high * float("nan")

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = _C.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return _C.log(inside) - _C.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return _C.log(self.high - self.low)
