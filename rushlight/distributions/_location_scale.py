"""What distributions share that are one shape, moved to `loc` and stretched by `scale`."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all


class AroundLocation(Distribution):
    """Symmetric about `loc`, which is its mean and its most likely value."""

    loc: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class LocationScale(AroundLocation):
    """A distribution of real numbers with a `loc` and a positive `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _expands = ("loc", "scale")

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)
