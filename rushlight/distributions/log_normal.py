"""The log-normal distribution."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._delegated import Delegated
from rushlight.distributions.normal import Normal
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """exp of a normal number with mean `loc` and deviation `scale`.

    Arguments:
        loc: mean of the logarithm.
        scale: deviation of the logarithm.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.LogNormal(0.0, 1.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(1.6487), tensor(-0.4660))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expands = ()

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc = Delegated("base_dist")
    scale = Delegated("base_dist")

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
