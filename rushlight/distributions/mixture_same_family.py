"""Mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A Categorical chooses one of the components, the last batch dim of another distribution.

    Arguments:
        mixture_distribution: a Categorical, the weights of components.
        component_distribution: the components, along the last batch dim.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> weights = rl.distributions.Categorical(probs=rl.tensor([0.5, 0.5]))
        >>> parts = rl.distributions.Normal(rl.tensor([-1.0, 1.0]), rl.tensor([0.5, 0.5]))
        >>> d = rl.distributions.MixtureSameFamily(weights, parts, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(1.0))
        (tensor(0.), tensor(-0.9186))
    """

    arg_constraints = {}
    has_rsample = False
    _expands = ("_mixture_distribution", "_component_distribution")
    _keeps = ("_num_component", "_event_ndims")

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("MixtureSameFamily: the mixture distribution must be a Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("MixtureSameFamily: the components must be a Distribution")
        mixed, parts = mixture_distribution.batch_shape, component_distribution.batch_shape
        for a, b in zip(reversed(mixed), reversed(parts[:-1]), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"MixtureSameFamily: the mixture's batch_shape {list(mixed)} does not fit the "
                    f"components' batch_shape {list(parts)}"
                )
        weights, count = mixture_distribution.logits.shape[-1], parts[-1]
        if weights != count:
            raise ValueError(f"MixtureSameFamily: {weights} weights for {count} components")
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(parts[:-1], event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.mixture_same_family(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def _weights(self):
        probs = self.mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * self._event_ndims))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        dim = -1 - self._event_ndims
        inside = (self._weights() * self.component_distribution.variance).sum(dim)
        away = self.component_distribution.mean - self.mean.unsqueeze(dim)
        return inside + (self._weights() * away.pow(2)).sum(dim)

    def cdf(self, x: Tensor) -> Tensor:
        x = self._pad(x)
        return (self.component_distribution.cdf(x) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        log_weights = self.mixture_distribution.logits
        log_weights = log_weights - log_weights.logsumexp(-1, keepdim=True)
        return (log_prob + log_weights).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        with no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            chosen = chosen.expand(sample_shape + self.batch_shape)
            draws = self.component_distribution.sample(sample_shape)
            index = chosen.reshape((*chosen.shape, *(1,) * (self._event_ndims + 1)))
            index = index.expand((*chosen.shape, 1, *self.event_shape))
            return _C.gather(draws, dim, index).squeeze(dim)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
