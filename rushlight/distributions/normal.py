"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions._location_scale import LocationScale
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import _standard_normal

__all__ = ["Normal"]


class Normal(LocationScale, ExponentialFamily):
    """Mean `loc`, standard deviation `scale`.

    Arguments:
        loc: the mean.
        scale: the standard deviation.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Normal(0.0, 2.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(1.0))
        (tensor(0.), tensor(-1.7371))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _C.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + _C.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * _C.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + _C.log(self.scale)

    @property
    def _natural_params(self):
        variance = self.scale.pow(2)
        return self.loc / variance, -0.5 * variance.reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * _C.log(-math.pi / y)
