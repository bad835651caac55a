"""The generalized Pareto distribution."""

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

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Tails over a threshold `loc`: exponential for concentration 0, heavier above it.

    Arguments:
        loc: the threshold.
        scale: the scale.
        concentration: how heavy the tail is.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.GeneralizedPareto(0.0, 1.0, 0.1, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(1.1111), tensor(-0.5367))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _expands = ("loc", "scale", "concentration")

    def __init__(
        self, loc: Tensor, scale: Tensor, concentration: Tensor, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _is_exponential(self):
        return _C.isclose(self.concentration, _C.zeros_like(self.concentration))

    def _safe_concentration(self):
        return _C.where(
            self._is_exponential(), _C.ones_like(self.concentration), self.concentration
        )

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(_C.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        k = self._safe_concentration()
        general = -(1 + 1 / k) * _C.log1p(k * z)
        return _C.where(self._is_exponential(), -z, general) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log of the probability of a draw above the value."""
        z = (value - self.loc) / self.scale
        k = self._safe_concentration()
        return _C.where(self._is_exponential(), -z, -_C.log1p(k * z) / k)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - _C.exp(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        k = self._safe_concentration()
        general = _C.expm1(-k * _C.log1p(-value)) / k
        exponential = -_C.log1p(-value)
        return self.loc + self.scale * _C.where(self._is_exponential(), exponential, general)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return _C.where(k < 1, self.loc + self.scale / (1 - k), float("inf"))

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        found = self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k))
        return _C.where(k < 0.5, found, float("inf"))

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        bound = self.loc - self.scale / self._safe_concentration()
        if bool((self.concentration < 0).all()):
            return constraints.interval(self.loc, bound)
        return constraints.greater_than_eq(self.loc)
