"""The half-normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight._C import Tensor
from rushlight.distributions._half import Half
from rushlight.distributions.normal import Normal
from rushlight.types import Self

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """|x| of a normal number x with mean 0 and deviation `scale`."""

    _whole = Normal

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
