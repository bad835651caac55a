"""Bernoulli's distribution made continuous (Maddison et al., 2016; Jang et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._binary_parameter import BinaryParameter
from rushlight.distributions._relaxed import Relaxed
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transforms import SigmoidTransform
from rushlight.distributions.utils import broadcast_all, clamp_probs
from rushlight.types import Number

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(BinaryParameter):
    """The log-odds of RelaxedBernoulli's draws."""

    support = constraints.real
    has_rsample = True
    _expands = BinaryParameter._expands
    _keeps = ("temperature",)

    def __init__(self, temperature: Tensor, probs: Tensor | Number | None = None,
                 logits: Tensor | Number | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.temperature = temperature
        shape = self._take("RelaxedBernoulli", probs, logits)
        Distribution.__init__(self, shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(_C.rand(shape, dtype=probs.dtype, device=probs.device))
        noise = u.log() - (-u).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        temperature = _C.as_tensor(self.temperature, dtype=diff.dtype, device=diff.device)
        return temperature.log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(Relaxed):
    """Numbers in (0, 1), the nearer to 0 and 1 the lower the temperature; differentiable.

    Arguments:
        temperature: how soft draws are.
        probs: probabilities of 1; or
        logits: their log-odds.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.RelaxedBernoulli(rl.tensor(0.5), probs=rl.tensor([0.3]))
        >>> x = d.rsample()
        >>> bool(0 < x < 1)
        True
    """

    arg_constraints = BinaryParameter.arg_constraints
    support = constraints.unit_interval
    _expands = ()

    def __init__(self, temperature: Tensor, probs: Tensor | Number | None = None,
                 logits: Tensor | Number | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)
