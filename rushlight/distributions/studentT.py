"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._location_scale import AroundLocation
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.distributions.utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(AroundLocation):
    """`df` degrees of freedom, moved to `loc` and stretched by `scale`.

    Arguments:
        df: degrees of freedom.
        loc: the middle.
        scale: the scale.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.StudentT(3.0, 0.0, scale=2.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(1.0))
        (tensor(0.), tensor(-1.8541))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _expands = ("df", "loc", "scale", "_chi2")

    def __init__(self, df: Tensor | float, loc: Tensor | float = 0.0, scale: Tensor | float = 1.0,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return _C.where(self.df <= 1, math.nan, self.loc)

    @property
    def variance(self) -> Tensor:
        df = self.df
        found = _C.where(df > 2, self.scale.pow(2) * df / (df - 2), math.inf)
        return _C.where(df <= 1, math.nan, found)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * _C.rsqrt(z / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
            + _C.lgamma(0.5 * self.df) - _C.lgamma(0.5 * (self.df + 1.0))
        )  # fmt: skip
        return -0.5 * (self.df + 1.0) * _C.log1p(y**2.0 / self.df) - normalizer

    def entropy(self) -> Tensor:
        df = self.df
        log_beta = _C.lgamma(0.5 * df) + math.lgamma(0.5) - _C.lgamma(0.5 * (df + 1))
        slope = _C.digamma(0.5 * (df + 1)) - _C.digamma(0.5 * df)
        return self.scale.log() + 0.5 * (df + 1) * slope + 0.5 * df.log() + log_beta
