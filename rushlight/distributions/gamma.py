"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._special import gammainc
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Shape `concentration`, rate `rate`. Draws have gradients by both parameters.

    Arguments:
        concentration: the shape.
        rate: the rate; the mean is concentration / rate.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Gamma(2.0, 3.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.6667), tensor(0.0041))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = ("concentration", "rate")

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        draws = _C._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # Never zero: the logarithm of a draw must exist.
        return draws.clamp(min=_C.finfo(draws.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        value = _C.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return _C.xlogy(a, rate) + _C.xlogy(a - 1, value) - rate * value - _C.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - _C.log(self.rate) + _C.lgamma(a) + (1 - a) * _C.digamma(a)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return _C.lgamma(x + 1) + (x + 1) * _C.log(-y.reciprocal())
