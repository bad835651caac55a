"""The F-distribution of Fisher and Snedecor."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """A ratio of two chi-squared numbers, each divided by its degrees of freedom.

    Arguments:
        df1, df2: degrees of freedom above and below.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.FisherSnedecor(5.0, 6.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(1.0))
        (tensor(1.5000), tensor(-0.8096))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expands = ("df1", "df2", "_gamma1", "_gamma2")

    def __init__(
        self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return _C.where(self.df2 > 2, self.df2 / (self.df2 - 2), float("nan"))

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return _C.where(self.df1 > 2, mode, float("nan"))

    @property
    def variance(self) -> Tensor:
        d1, d2 = self.df1, self.df2
        found = 2 * d2.pow(2) * (d1 + d2 - 2) / (d1 * (d2 - 2).pow(2) * (d2 - 4))
        return _C.where(d2 > 4, found, float("nan"))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = Size(sample_shape)
        top, bottom = self._gamma1.rsample(shape), self._gamma2.rsample(shape)
        return top / bottom.clamp(min=_C.finfo(bottom.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2 = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        constant = _C.lgamma(half1 + half2) - half1.lgamma() - half2.lgamma()
        shape = half1 * ratio.log() + (half1 - 1) * _C.log(value)
        return constant + shape - (half1 + half2) * _C.log1p(ratio * value)
