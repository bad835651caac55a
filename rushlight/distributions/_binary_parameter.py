"""What distributions over yes and no share: a parameter that is a probability or its log-odds."""

from __future__ import annotations

from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import (
    _is_number,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from rushlight.types import Number


class BinaryParameter(Distribution):
    """`probs` or `logits`: one is given, the other follows from it."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _expands: tuple[str, ...] = ("probs", "logits", "_param")

    def __init__(self, probs: Tensor | Number | None = None, logits: Tensor | Number | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        shape = self._take(type(self).__name__, probs, logits)
        super().__init__(shape, validate_args=validate_args)

    def _take(self, name, probs, logits, total_count=None):
        """Keeps what was given, of the same shape as the number of trials; returns the shape of
        the batch."""
        if (probs is None) == (logits is None):
            raise ValueError(f"{name}: give either `probs` or `logits`, but not both")
        given = logits if probs is None else probs
        if total_count is None:
            (self._param,) = broadcast_all(given)
        else:
            self.total_count, self._param = broadcast_all(total_count, given)
            self.total_count = self.total_count.type_as(self._param)
        setattr(self, "logits" if probs is None else "probs", self._param)
        return Size() if total_count is None and _is_number(given) else self._param.size()

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        return self._param.size()
