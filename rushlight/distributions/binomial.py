"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions._binary_parameter import BinaryParameter
from rushlight.distributions.distribution import Distribution

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["Binomial"]


def _clamp_by_zero(x):
    # As x.clamp(min=0), but with half of the gradient at 0.
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(BinaryParameter):
    """Successes out of `total_count` trials, each of probability `probs`.

    Arguments:
        total_count: how many trials.
        probs: probability of a success; or
        logits: its log-odds.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Binomial(10, probs=rl.tensor(0.3), validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(3.0))
        (tensor(3.), tensor(-1.3212))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _expands = ("total_count", *BinaryParameter._expands)

    def __init__(self, total_count: Tensor | int = 1, probs: Tensor | None = None,
                 logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        shape = self._take("Binomial", probs, logits, total_count)
        Distribution.__init__(self, shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _C.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        log_choices = _C.lgamma(n + 1) - _C.lgamma(value + 1) - _C.lgamma(n - value + 1)
        # log(1 + exp(logits)), written so that neither sign overflows
        normalizer = n * _clamp_by_zero(self.logits) + n * _C.log1p(_C.exp(-self.logits.abs()))
        return value * self.logits + log_choices - normalizer

    def entropy(self) -> Tensor:
        total = int(self.total_count.max())
        if not bool((self.total_count == total).all()):
            raise NotImplementedError("Binomial.entropy: total_count must be the same for all")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(_C.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        total = int(self.total_count.max())
        if not bool((self.total_count == total).all()):
            raise NotImplementedError(
                "Binomial.enumerate_support: total_count must be the same for all"
            )
        values = _C.arange(1 + total, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
