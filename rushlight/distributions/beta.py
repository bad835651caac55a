"""The beta distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.dirichlet import Dirichlet
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """Density proportional to x^(concentration1 - 1) (1 - x)^(concentration0 - 1).

    Arguments:
        concentration1, concentration0: the exponents plus 1, both positive.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Beta(2.0, 3.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.4000), tensor(0.4055))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _expands = ("_dirichlet",)

    def __init__(self, concentration1: Tensor | float, concentration0: Tensor | float,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        both = _C.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(_C.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return _C.lgamma(x) + _C.lgamma(y) - _C.lgamma(x + y)
