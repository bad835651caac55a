"""Dirichlet's distribution."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Vectors that sum to 1, with one concentration a component.

    Arguments:
        concentration: one number per component.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Dirichlet(rl.tensor([1.0, 2.0, 3.0]), validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor([0.2, 0.3, 0.5]))
        (tensor([0.1667, 0.3333, 0.5000]), tensor(1.5041))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 3])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _expands = ("concentration",)

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: `concentration` must have at least one dimension")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # Independent gamma numbers, divided by their sum. In float64: with small concentrations
        # nearly all of them are tiny.
        draws = _C._standard_gamma(self.concentration.expand(shape).double())
        return (draws / draws.sum(-1, keepdim=True)).to(self.concentration.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return _C.xlogy(a - 1, value).sum(-1) + _C.lgamma(a.sum(-1)) - _C.lgamma(a).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """A corner, as PyTorch chooses the first one, where no concentration is above 1."""
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        corner = (self.concentration < 1).all(-1)
        largest = mode.new_zeros(mode.shape)
        largest.scatter_(-1, above.argmax(-1, keepdim=True), 1.0)
        return _C.where(corner.unsqueeze(-1), largest, mode)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1, True)
        return a * (total - a) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a = self.concentration
        k, total = a.size(-1), a.sum(-1)
        return (
            _C.lgamma(a).sum(-1) - _C.lgamma(total) - (k - total) * _C.digamma(total)
            - ((a - 1) * _C.digamma(a)).sum(-1)
        )  # fmt: skip

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - _C.lgamma(x.sum(-1))
