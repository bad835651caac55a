"""Weibull's distribution."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, PowerTransform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """scale times a power 1 / concentration of an exponential number.

    Arguments:
        scale: the scale.
        concentration: the shape.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Weibull(1.0, 2.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.8862), tensor(-0.2500))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _expands = ("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale: Tensor | float, concentration: Tensor | float,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(_C.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * _C.exp(_C.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        part = ((self.concentration - 1) / self.concentration).clamp(min=0)
        return self.scale * part ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        first = 2 * _C.lgamma(1 + self.concentration_reciprocal)
        second = _C.lgamma(1 + 2 * self.concentration_reciprocal)
        return self.scale.pow(2) * (_C.exp(second) - _C.exp(first))

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + _C.log(self.scale * inverse) + 1
