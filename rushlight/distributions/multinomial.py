"""The multinomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._over_categories import OverCategories
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["Multinomial"]


class Multinomial(OverCategories):
    """How often each of K categories comes in `total_count` draws.

    Arguments:
        total_count: how many draws.
        probs: weights of the categories; or
        logits: unnormalised log-weights.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Multinomial(5, probs=rl.tensor([0.2, 0.8]), validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor([1.0, 4.0]))
        (tensor([1., 4.]), tensor(-0.8926))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 2])
    """

    _expands = ("_categorical", "_binomial")
    _keeps = ("total_count",)

    def __init__(self, total_count: int = 1, probs: Tensor | None = None,
                 logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count must be one int")
        self.total_count = total_count
        self._take(probs, logits, validate_args)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = Size(sample_shape)
        draws = self._categorical.sample(Size((self.total_count,)) + shape)
        # Counts along the first dim, which goes.
        places = draws.permute((*range(1, draws.dim()), 0))
        counts = _C.zeros(self._extended_shape(shape), dtype=self.probs.dtype, device=draws.device)
        counts.scatter_add_(-1, places, _C.ones_like(places, dtype=counts.dtype))
        return counts

    def entropy(self) -> Tensor:
        n = _C.tensor(float(self.total_count), dtype=self.probs.dtype)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = _C.exp(self._binomial.log_prob(support))
        expected = (weights * _C.lgamma(support + 1)).sum((0, -1))
        return n * self._categorical.entropy() - _C.lgamma(n + 1) + expected

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone()
        log_choices = _C.lgamma(value.sum(-1) + 1) - _C.lgamma(value + 1).sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0.0)
        return log_choices + (logits * value).sum(-1)
