"""What the relaxed forms of discrete distributions share."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.distributions.transformed_distribution import TransformedDistribution


class Relaxed(TransformedDistribution):
    """A transform of a relaxed distribution on an open scale, which has the parameters."""

    has_rsample = True

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
