"""The normal distribution of vectors whose covariance is a diagonal plus a matrix of low rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C, linalg
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._location_scale import AroundLocation
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.distributions.multivariate_normal import _batch_mahalanobis, _broadcast_shapes
from rushlight.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _capacitance_tril(W, D):
    """The factor of I + W^T D^-1 W, a small matrix."""
    scaled = W.mT / D.unsqueeze(-2)
    inner = scaled @ W
    return linalg.cholesky(inner + _C.eye(W.shape[-1], dtype=W.dtype, device=W.device))


def _log_det(D, capacitance):
    """log det of the covariance, by the matrix determinant lemma."""
    return 2 * capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _mahalanobis(W, D, x, capacitance):
    """The squared distance, by the Woodbury identity."""
    projected = ((W.mT / D.unsqueeze(-2)) @ x.unsqueeze(-1)).squeeze(-1)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance, projected)


class LowRankMultivariateNormal(AroundLocation):
    """Covariance cov_factor cov_factor^T + diag(cov_diag).

    Arguments:
        loc: the mean, (..., n).
        cov_factor: (..., n, r).
        cov_diag: (..., n), positive.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.LowRankMultivariateNormal(rl.zeros(2), rl.ones(2, 1),
        ...     rl.ones(2), validate_args=True)
        >>> d.mean, d.log_prob(rl.ones(2))
        (tensor([0., 0.]), tensor(-2.7205))
        >>> d.sample((4,)).shape
        rushlight.Size([4, 2])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _expands = ("loc", "cov_diag", "cov_factor", "_capacitance")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1 or cov_factor.dim() < 2 or cov_diag.dim() < 1:
            raise ValueError(
                "LowRankMultivariateNormal: loc and cov_diag must be vectors, cov_factor a matrix, "
                "or batches of them"
            )
        event = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != event or cov_diag.shape[-1:] != event:
            raise ValueError(
                f"LowRankMultivariateNormal: loc has {event[0]} components, cov_factor is "
                f"{list(cov_factor.shape[-2:])} and cov_diag has {cov_diag.shape[-1]}"
            )
        batch = Size(_broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]))
        self.loc = loc.expand((*batch, *event))
        self.cov_diag = cov_diag.expand((*batch, *event))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self._capacitance = _capacitance_tril(self.cov_factor, self.cov_diag)
        super().__init__(batch, event, validate_args=validate_args)

    @lazy_property
    def variance(self):
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self):
        return self.cov_factor @ self.cov_factor.mT + _C.diag_embed(self.cov_diag)

    @lazy_property
    def scale_tril(self):
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        half = linalg.solve_triangular(self._capacitance, scaled, upper=False)
        return _C.diag_embed(self.cov_diag.reciprocal()) - half.mT @ half

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        small = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), **options)
        own = _standard_normal(shape, **options)
        shared = (self.cov_factor @ small.unsqueeze(-1)).squeeze(-1)
        return self.loc + shared + self.cov_diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diff = value - self.loc
        distance = _mahalanobis(self.cov_factor, self.cov_diag, diff, self._capacitance)
        log_det = _log_det(self.cov_diag, self._capacitance)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + distance)

    def entropy(self) -> Tensor:
        log_det = _log_det(self.cov_diag, self._capacitance)
        half = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return half.expand(self._batch_shape)
