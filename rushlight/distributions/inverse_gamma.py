"""The inverse gamma distribution."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._delegated import Delegated
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 / x of a gamma number x.

    Arguments:
        concentration: the shape.
        rate: the rate of the gamma number.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.InverseGamma(2.0, 3.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(3.), tensor(-1.7233))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expands = ()

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, power, validate_args=validate_args)

    concentration = Delegated("base_dist")
    rate = Delegated("base_dist")

    @property
    def mean(self) -> Tensor:
        found = self.rate / (self.concentration - 1)
        return _C.where(self.concentration > 1, found, float("inf"))

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        found = self.rate.square() / ((a - 1).square() * (a - 2))
        return _C.where(a > 2, found, float("inf"))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
