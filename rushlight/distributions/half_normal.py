"""The half-normal distribution."""

from __future__ import annotations

import math

from rushlight._C import Tensor
from rushlight.distributions._half import Half
from rushlight.distributions.normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """|x| of a normal number x with mean 0 and deviation `scale`.

    Arguments:
        scale: the deviation of the normal number.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.HalfNormal(1.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.7979), tensor(-0.3508))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
