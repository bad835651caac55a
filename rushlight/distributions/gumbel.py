"""Gumbel's distribution."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, ExpTransform
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The law of maxima: cdf exp(-exp(-(x - loc) / scale)).

    Arguments:
        loc: the mode.
        scale: the scale.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Gumbel(0.0, 1.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.5772), tensor(-1.1065))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _expands = ("loc", "scale")

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = _C.finfo(self.loc.dtype)
        low, high = _C.full_like(self.loc, limits.tiny), _C.full_like(self.loc, 1 - limits.eps)
        base = Uniform(low, high, validate_args=validate_args)
        transforms = [
            ExpTransform().inv,
            AffineTransform(0, -_C.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _C.exp(-_C.exp((self.loc - value) / self.scale))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * _C.log(-_C.log(value))

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
