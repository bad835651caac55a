"""Poisson's distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import _is_number, broadcast_all
from rushlight.types import Number

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Counts with mean `rate`.

    Arguments:
        rate: the mean.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Poisson(4.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(3.0))
        (tensor(4.), tensor(-1.6329))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _expands = ("rate",)

    def __init__(self, rate: Tensor | Number, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        shape = Size() if _is_number(rate) else self.rate.size()
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _C.poisson(self.rate.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (_C.log(self.rate),)

    def _log_normalizer(self, x):
        return _C.exp(x)
