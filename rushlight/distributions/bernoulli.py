"""Bernoulli's distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions._binary_parameter import BinaryParameter
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all
from rushlight.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Bernoulli"]


class Bernoulli(BinaryParameter, ExponentialFamily):
    """1 with probability `probs` (or log-odds `logits`), else 0.

    Arguments:
        probs: probabilities of 1; or
        logits: their log-odds.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Bernoulli(probs=rl.tensor([0.3]), validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor([1.0]))
        (tensor([0.3000]), tensor([-1.2040]))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 1])
    """

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs)
        return _C.where(self.probs == 0.5, float("nan"), mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _C.bernoulli(self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = _C.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self):
        return (_C.logit(self.probs),)

    def _log_normalizer(self, x):
        return _C.log1p(_C.exp(x))
