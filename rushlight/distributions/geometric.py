"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions._binary_parameter import BinaryParameter
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.distributions.utils import broadcast_all
from rushlight.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Geometric"]


class Geometric(BinaryParameter):
    """Failures before the first success of probability `probs`: 0, 1, 2, ...

    Arguments:
        probs: probability of a success; or
        logits: its log-odds.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Geometric(probs=rl.tensor(0.3), validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(2.0))
        (tensor(2.3333), tensor(-1.9173))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    support = constraints.nonnegative_integer

    def _check_parameters(self):
        super()._check_parameters()
        if "probs" in self.__dict__ and not bool((self.probs > 0).all()):
            raise ValueError(f"Geometric: all probs must be positive, got {self.probs}")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return _C.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        tiny = _C.finfo(self.probs.dtype).tiny
        with no_grad():
            u = _C.rand(shape, dtype=self.probs.dtype, device=self.probs.device).clamp(min=tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = _C.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return (
            binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
        )
