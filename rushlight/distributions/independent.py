"""Batch dims as dims of one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._delegated import Delegated
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _sum_rightmost

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["Independent"]


class Independent(Distribution):
    """The base distribution with its last batch dims as part of each event.

    Arguments:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many of its last batch dims.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Independent(rl.distributions.Normal(rl.zeros(3), rl.ones(3)), 1,
        ...     validate_args=True)
        >>> d.event_shape, d.log_prob(rl.zeros(3))
        (rushlight.Size([3]), tensor(-2.7568))
    """

    arg_constraints = {}
    _expands = ("base_dist",)
    _keeps = ("reinterpreted_batch_ndims",)

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims is {reinterpreted_batch_ndims}, but the "
                f"base distribution has {len(base_distribution.batch_shape)} batch dims"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        cut = len(shape) - event_dim
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        found = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            found = constraints.independent(found, self.reinterpreted_batch_ndims)
        return found

    mean = Delegated("base_dist")
    mode = Delegated("base_dist")
    variance = Delegated("base_dist")

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Independent: products of supports are not enumerated")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
