"""The half-normal distribution."""

from __future__ import annotations

import math

from rushlight._C import Tensor
from rushlight.distributions._half import Half
from rushlight.distributions.normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """|x| of a normal number x with mean 0 and deviation `scale`."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
