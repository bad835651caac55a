"""What the relaxed forms of discrete distributions share."""

from __future__ import annotations

from rushlight.distributions._delegated import Delegated
from rushlight.distributions.transformed_distribution import TransformedDistribution


class Relaxed(TransformedDistribution):
    """A transform of a relaxed distribution on an open scale, which has the parameters."""

    has_rsample = True

    temperature = Delegated("base_dist")
    logits = Delegated("base_dist")
    probs = Delegated("base_dist")
