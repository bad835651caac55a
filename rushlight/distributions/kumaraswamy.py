"""Kumaraswamy's distribution."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, PowerTransform
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moment(a, b, n):
    """The n-th moment about zero."""
    return _C.exp(b.log() + _C.lgamma(1 + n / a) + _C.lgamma(b) - _C.lgamma(1 + n / a + b))


class Kumaraswamy(TransformedDistribution):
    """A relative of the beta distribution: cdf 1 - (1 - x^a)^b.

    Arguments:
        concentration1, concentration0: a and b of the formula.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Kumaraswamy(2.0, 3.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.4571), tensor(0.5232))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _expands = ("concentration1", "concentration0")

    def __init__(self, concentration1: Tensor | float, concentration0: Tensor | float,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            _C.full_like(self.concentration0, 0),
            _C.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return _moment(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return _C.where((a < 1) | (b < 1), float("nan"), mode)

    @property
    def variance(self) -> Tensor:
        return _moment(self.concentration1, self.concentration0, 2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = _C.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - _C.log(a) - _C.log(b)
