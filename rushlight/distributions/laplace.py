"""Laplace's distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions._location_scale import LocationScale
from rushlight.distributions.distribution import Distribution as Distribution

__all__ = ["Laplace"]


class Laplace(LocationScale):
    """Density exp(-|x - loc| / scale) / (2 scale).

    Arguments:
        loc: the mean.
        scale: the scale.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Laplace(0.0, 1.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.), tensor(-1.1931))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps = _C.finfo(self.loc.dtype).eps
        u = _C.empty(shape, dtype=self.loc.dtype, device=self.loc.device).uniform_(eps - 1, 1)
        return self.loc - self.scale * u.sign() * _C.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -_C.log(2 * self.scale) - _C.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * _C.expm1(-away.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * _C.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + _C.log(2 * self.scale)
