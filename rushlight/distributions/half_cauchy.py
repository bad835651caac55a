"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions._half import Half
from rushlight.distributions.cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """|x| of a Cauchy number x with median 0 and width `scale`.

    Arguments:
        scale: the scale.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.HalfCauchy(1.0, validate_args=True)
        >>> d.scale, d.log_prob(rl.tensor(0.5))
        (tensor(1.), tensor(-0.6747))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return _C.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        value = _C.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return super().log_prob(value)
