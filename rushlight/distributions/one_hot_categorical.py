"""The categorical distribution over unit vectors."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._over_categories import OverCategories
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.nn.functional import one_hot

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OverCategories):
    """Vectors of zeros with one 1, at the place that Categorical draws.

    Arguments:
        probs: weights along the last dim; or
        logits: unnormalised log-weights.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.OneHotCategorical(probs=rl.tensor([0.2, 0.8]), validate_args=True)
        >>> d.event_shape, d.log_prob(rl.tensor([0.0, 1.0]))
        (rushlight.Size([2]), tensor(-0.2231))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 2])
    """

    support = constraints.one_hot
    has_enumerate_support = True
    _expands = ("_categorical",)

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._take(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        draws = self._categorical.sample(Size(sample_shape))
        return one_hot(draws, self._categorical._num_events).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = _C.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *(1,) * len(self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Draws carry the gradient of the probabilities (Bengio et al., 2013).

    Arguments:
        probs: weights along the last dim; or
        logits: unnormalised log-weights.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.OneHotCategoricalStraightThrough(probs=rl.tensor([0.2, 0.8]),
        ...     validate_args=True)
        >>> d.event_shape, d.log_prob(rl.tensor([0.0, 1.0]))
        (rushlight.Size([2]), tensor(-0.2231))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 2])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        draws = self.sample(sample_shape)
        return draws + (self._categorical.probs - self._categorical.probs.detach())
