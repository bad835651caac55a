"""Cauchy's distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions._location_scale import LocationScale
from rushlight.distributions.distribution import Distribution as Distribution

__all__ = ["Cauchy"]


class Cauchy(LocationScale):
    """Median `loc`, half width at half height `scale`; it has no mean.

    Arguments:
        loc: the median.
        scale: half the width at half height.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Cauchy(0.0, 1.0, validate_args=True)
        >>> d.loc, d.log_prob(rl.tensor(1.0))
        (tensor(0.), tensor(-1.8379))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    @property
    def mean(self) -> Tensor:
        return _C.full(
            self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device
        )

    @property
    def variance(self) -> Tensor:
        return _C.full(
            self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device
        )

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _C.empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z**2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _C.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return _C.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
