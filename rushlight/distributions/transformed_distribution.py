"""A distribution pushed through transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.independent import Independent
from rushlight.distributions.transforms import ComposeTransform, Transform
from rushlight.distributions.utils import _sum_rightmost
from rushlight.types import Self

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """y = t(x) with x from a base distribution; the density follows from the Jacobians.

    Arguments:
        base_distribution: where x comes from.
        transforms: a transform, or a list of them.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> base = rl.distributions.Normal(0.0, 1.0)
        >>> d = rl.distributions.TransformedDistribution(base, rl.distributions.ExpTransform(),
        ...     validate_args=True)
        >>> d.log_prob(rl.tensor(0.5))
        tensor(-0.4660)
    """

    arg_constraints = {}
    _expands: tuple[str, ...] = ()

    def __init__(self, base_distribution: Distribution, transforms: Transform | list[Transform],
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list) and all(isinstance(t, Transform) for t in transforms):
            self.transforms = transforms
        else:
            raise ValueError(
                "TransformedDistribution: transforms must be a Transform or a list of them, got "
                f"{transforms!r}"
            )
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                f"TransformedDistribution: the base distribution needs at least "
                f"{transform.domain.event_dim} dims for {transform}, it has {list(base_shape)}"
            )
        shape = Size(transform.forward_shape(base_shape))
        expanded = Size(transform.inverse_shape(shape))
        if base_shape != expanded:
            batch = expanded[: len(expanded) - base_event_dim]
            base_distribution = base_distribution.expand(batch)
        moved = transform.domain.event_dim - base_event_dim
        if moved > 0:
            base_distribution = Independent(base_distribution, moved)
        self.base_dist: Any = base_distribution
        change = transform.codomain.event_dim - transform.domain.event_dim
        event_dim = max(transform.codomain.event_dim, base_event_dim + change)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        batch_shape = Size(batch_shape)
        new = self._with_expanded_attributes(batch_shape, _instance)
        shape = batch_shape + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        base_batch = Size(shape)[: len(shape) - len(self.base_dist.event_shape)]
        new.base_dist = self.base_dist.expand(base_batch)
        new.transforms = self.transforms
        super(TransformedDistribution, new).__init__(
            batch_shape, self.event_shape, validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        missing = len(self.event_shape) - found.event_dim
        return constraints.independent(found, missing) if missing > 0 else found

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim, log_prob, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            jacobian = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - _sum_rightmost(jacobian, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        """A falling map turns a probability round."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for transform in self.transforms:
            value = transform(value)
        return value
