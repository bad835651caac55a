"""The continuous Bernoulli distribution (Loaiza-Ganem and Cunningham, 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._binary_parameter import BinaryParameter
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from rushlight.nn.functional import binary_cross_entropy_with_logits
from rushlight.types import Number

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(BinaryParameter, ExponentialFamily):
    """On [0, 1], with a density proportional to probs^x (1 - probs)^(1 - x).

    Arguments:
        probs: the parameter, in (0, 1); or
        logits: its log-odds.
        lims: between these, where the formula is unstable near 1/2, a series is used.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.ContinuousBernoulli(probs=rl.tensor([0.3]), validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor([0.4]))
        (tensor([0.4302]), tensor([0.0550]))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 1])
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = BinaryParameter._expands
    _keeps = ("_lims",)

    def __init__(self, probs: Tensor | Number | None = None, logits: Tensor | Number | None = None,
                 lims: tuple[float, float] = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        shape = self._take("ContinuousBernoulli", probs, logits)
        if probs is not None:
            if validate_args is not None and not bool(
                constraints.unit_interval.check(self.probs).all()
            ):
                raise ValueError("ContinuousBernoulli: probs must lie in [0, 1]")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        Distribution.__init__(self, shape, validate_args=validate_args)

    # Formulas divide by 1 - 2 probs: near one half a Taylor series takes over.

    def _away(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _safe_probs(self):
        return _C.where(self._away(), self.probs, self._lims[0] * _C.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        p = self._safe_probs()
        low = _C.where(p <= 0.5, p, _C.zeros_like(p))
        high = _C.where(p >= 0.5, p, _C.ones_like(p))
        shape = _C.where(p <= 0.5, _C.log1p(-2.0 * low), _C.log(2.0 * high - 1.0))
        exact = _C.log(_C.abs(_C.log1p(-p) - _C.log(p))) - shape
        x = (self.probs - 0.5).pow(2)
        return _C.where(self._away(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        p = self._safe_probs()
        exact = p / (2.0 * p - 1.0) + 1.0 / (_C.log1p(-p) - _C.log(p))
        x = self.probs - 0.5
        return _C.where(self._away(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def stddev(self) -> Tensor:
        return _C.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        p = self._safe_probs()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (_C.log1p(-p) - _C.log(p)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return _C.where(self._away(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(_C.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        likelihood = -binary_cross_entropy_with_logits(logits, value, reduction="none")
        return likelihood + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._safe_probs()
        exact = (_C.pow(p, value) * _C.pow(1.0 - p, 1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = _C.where(self._away(), exact, value)
        return _C.where(value <= 0.0, _C.zeros_like(value),
                        _C.where(value >= 1.0, _C.ones_like(value), inside))  # fmt: skip

    def icdf(self, value: Tensor) -> Tensor:
        p = self._safe_probs()
        exact = (_C.log1p(-p + value * (2.0 * p - 1.0)) - _C.log1p(-p)) / (_C.log(p) - _C.log1p(-p))
        return _C.where(self._away(), exact, value)

    def entropy(self) -> Tensor:
        log0, log1 = _C.log1p(-self.probs), _C.log(self.probs)
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        safe = _C.where(outside, x, (self._lims[0] - 0.5) * _C.ones_like(x))
        exact = _C.log(_C.abs(_C.expm1(safe)))
        return _C.where(outside, exact - _C.log(_C.abs(safe)), 0.5 * x + x.pow(2) / 24.0)
