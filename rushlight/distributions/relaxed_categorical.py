"""The categorical distribution made continuous (Maddison et al., 2016; Jang et al., 2016)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._over_categories import OverCategories
from rushlight.distributions._relaxed import Relaxed
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.transforms import ExpTransform
from rushlight.distributions.utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OverCategories):
    """The logarithm of RelaxedOneHotCategorical's draws."""

    support = constraints.real_vector  # more than it reaches: exp of a draw sums to 1
    has_rsample = True
    _expands = ("_categorical",)
    _keeps = ("temperature",)

    def __init__(self, temperature: Tensor, probs: Tensor | None = None,
                 logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.temperature = temperature
        self._take(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(_C.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-(u.log())).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = _C.as_tensor(self.temperature, dtype=logits.dtype, device=logits.device)
        log_scale = math.lgamma(k) + (k - 1) * temperature.log()
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(Relaxed):
    """Probability vectors, the nearer to a corner the lower the temperature; differentiable.

    Arguments:
        temperature: how soft draws are.
        probs: weights along the last dim; or
        logits: unnormalised log-weights.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.RelaxedOneHotCategorical(rl.tensor(0.5), probs=rl.tensor([0.2,
        ...     0.8]))
        >>> x = d.rsample()
        >>> abs(x.sum().item() - 1) < 1e-5
        True
    """

    arg_constraints = Categorical.arg_constraints
    support = constraints.simplex
    _expands = ()

    def __init__(self, temperature: Tensor, probs: Tensor | None = None,
                 logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
