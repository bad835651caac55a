"""The logistic-normal distribution."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.independent import Independent
from rushlight.distributions.normal import Normal
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Probability vectors: normal numbers through StickBreakingTransform.

    Arguments:
        loc: means of the n normal numbers.
        scale: their deviations.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> x = rl.distributions.LogisticNormal(rl.zeros(2), rl.ones(2),
        ...     validate_args=True).sample()
        >>> x.shape, round(x.sum().item(), 4)
        (rushlight.Size([3]), 1.0)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _expands = ()

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        base = self.base_dist
        return base.base_dist.loc if isinstance(base, Independent) else base.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        base = self.base_dist
        return base.base_dist.scale if isinstance(base, Independent) else base.scale  # type: ignore[attr-defined]
