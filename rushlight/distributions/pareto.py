"""Pareto's distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, ExpTransform
from rushlight.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """Numbers from `scale` on, whose tail falls as x^-alpha.

    Arguments:
        scale: the smallest number.
        alpha: how fast the tail falls.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Pareto(1.0, 3.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(2.0))
        (tensor(1.5000), tensor(-1.6740))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _expands = ("scale", "alpha")

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
