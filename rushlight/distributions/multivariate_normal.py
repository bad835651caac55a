"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import linalg
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._covariance import CovarianceParameter
from rushlight.distributions._covariance import (
    _precision_to_scale_tril as _precision_to_scale_tril,
)  # PyTorch's place of it
from rushlight.distributions._location_scale import AroundLocation
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.distributions.utils import _standard_normal

__all__ = ["MultivariateNormal"]


def _broadcast_shapes(*shapes):
    from rushlight.functional import broadcast_shapes

    return broadcast_shapes(*shapes)


def _batch_mahalanobis(bL, bx):
    """x^T (L L^T)^-1 x, over batches of L and x."""
    batch = _broadcast_shapes(bL.shape[:-2], bx.shape[:-1])
    L = bL.expand((*batch, *bL.shape[-2:]))
    x = bx.expand((*batch, bx.shape[-1]))
    solved = linalg.solve_triangular(L, x.unsqueeze(-1), upper=False)
    return solved.pow(2).sum((-2, -1))


class MultivariateNormal(CovarianceParameter, AroundLocation):
    """Mean `loc`, and one of covariance_matrix, precision_matrix, scale_tril (its lower factor).

    Arguments:
        loc: the mean, (..., n).
        covariance_matrix: (..., n, n); or
        precision_matrix: its inverse; or
        scale_tril: its lower Cholesky factor, which costs least.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.MultivariateNormal(rl.zeros(2), rl.eye(2), validate_args=True)
        >>> d.mean, d.log_prob(rl.ones(2))
        (tensor([0., 0.]), tensor(-2.8379))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 2])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _expands = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")
    _keeps = ("_unbroadcasted_scale_tril",)

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None,
                 precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc must have at least one dimension")
        name, matrix = self._one_of(
            "MultivariateNormal",
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        batch = Size(_broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]))
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._keep_factor(name, matrix)

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        half = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return half.expand(self._batch_shape)
