"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions._binary_parameter import BinaryParameter
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import lazy_property
from rushlight.nn import functional as F

__all__ = ["NegativeBinomial"]


class NegativeBinomial(BinaryParameter):
    """Successes of probability `probs` before `total_count` failures.

    Arguments:
        total_count: how many failures.
        probs: probability of a success; or
        logits: its log-odds.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.NegativeBinomial(3.0, probs=rl.tensor(0.3), validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(2.0))
        (tensor(1.2857), tensor(-1.6862))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _expands = ("total_count", *BinaryParameter._expands)

    def __init__(self, total_count: Tensor | float, probs: Tensor | None = None,
                 logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        shape = self._take("NegativeBinomial", probs, logits, total_count)
        Distribution.__init__(self, shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * _C.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / _C.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        return Gamma(self.total_count, _C.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            return _C.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalized = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        normalizer = -_C.lgamma(n + value) + _C.lgamma(1.0 + value) + _C.lgamma(n)
        normalizer = normalizer.masked_fill(n + value == 0.0, 0.0)
        return unnormalized - normalizer
