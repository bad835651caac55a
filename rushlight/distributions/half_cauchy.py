"""The half-Cauchy distribution."""

import math

from rushlight import _C
from rushlight.distributions._half import Half
from rushlight.distributions.cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """|x| of a Cauchy number x with median 0 and width `scale`."""

    _whole = Cauchy

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self):
        return _C.full_like(self.scale, math.inf)

    @property
    def variance(self):
        return self.base_dist.variance

    def log_prob(self, value):
        value = _C.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return super().log_prob(value)
