"""The categorical distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import lazy_property, logits_to_probs, probs_to_logits

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["Categorical"]


class Categorical(Distribution):
    """0 to K - 1, with the weights `probs` or the unnormalised log-weights `logits`, in the last
    dim.

    Arguments:
        probs: weights along the last dim, which need not add up to 1; or
        logits: unnormalised log-weights.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Categorical(probs=rl.tensor([0.2, 0.3, 0.5]), validate_args=True)
        >>> d.entropy(), d.log_prob(rl.tensor(2))
        (tensor(1.0297), tensor(-0.6931))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _expands = ("probs", "logits", "_param")
    _keeps = ("_num_events",)

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if (probs is None) == (logits is None):
            raise ValueError("Categorical: give either `probs` or `logits`, but not both")
        given = logits if probs is None else probs
        if given.dim() < 1:  # type: ignore[union-attr]
            name = "logits" if probs is None else "probs"
            raise ValueError(f"Categorical: `{name}` must have at least one dimension")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)  # type: ignore[operator, union-attr]
        self._param = self.logits if probs is None else self.probs
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        return self._param.size()

    @property
    def mean(self) -> Tensor:
        return _C.full(
            self._extended_shape(), float("nan"), dtype=self.probs.dtype, device=self.probs.device
        )

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            draws = _C.multinomial(rows, max(sample_shape.numel(), 1), True).T
            if sample_shape.numel() == 0:
                draws = draws[:0]
            return draws.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        from rushlight.functional import broadcast_tensors

        value, log_pmf = broadcast_tensors(value, self.logits)
        return log_pmf.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        lowest = _C.finfo(self.logits.dtype).min
        logits = self.logits.clamp(min=lowest)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = _C.arange(self._num_events, dtype=_C.long, device=self._param.device)
        values = values.view((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
