"""Wishart's distribution of positive definite matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight import _C, linalg
from rushlight._C import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._covariance import CovarianceParameter
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.multivariate_normal import _broadcast_shapes
from rushlight.types import Number

__all__ = ["Wishart"]


class Wishart(CovarianceParameter, ExponentialFamily):
    """Sums of `df` outer products of normal vectors with this covariance; df above p - 1.

    Arguments:
        df: degrees of freedom, above n - 1.
        covariance_matrix: (..., n, n); or
        precision_matrix: its inverse; or
        scale_tril: its lower Cholesky factor.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Wishart(rl.tensor(4.0), covariance_matrix=rl.eye(2))
        >>> d.mean
        tensor([[4., 0.],
                [0., 4.]])
    """

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = ("covariance_matrix", "precision_matrix", "scale_tril", "df")
    _keeps = ("_unbroadcasted_scale_tril",)

    def __init__(self, df: Tensor | Number, covariance_matrix: Tensor | None = None,
                 precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        name, matrix = self._one_of(
            "Wishart",
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        df = df if isinstance(df, _C.Tensor) else _C.tensor(float(df), dtype=matrix.dtype)
        batch = Size(_broadcast_shapes(matrix.shape[:-2], df.shape))
        event = matrix.shape[-2:]
        if bool((df <= event[-1] - 1).any()):
            raise ValueError(f"Wishart: df must exceed {event[-1] - 1}, got {df.tolist()}")
        setattr(self, name, matrix.expand((*batch, *event)))
        self.df = df.expand(batch)
        super().__init__(batch, event, validate_args=validate_args)
        self._keep_factor(name, matrix)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = _C.where(factor <= 0, float("nan"), factor)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (V.pow(2) + outer)

    def rsample(self, sample_shape: Sequence[int] = Size(),
                max_try_correction: Any = None) -> Tensor:  # fmt: skip
        """Bartlett's decomposition: a triangle of normal numbers with a chi diagonal."""
        sample_shape = Size(sample_shape)
        p = self._event_shape[-1]
        L = self._unbroadcasted_scale_tril
        degrees = self.df.unsqueeze(-1) - _C.arange(p, dtype=self.df.dtype, device=self.df.device)
        shape = (*sample_shape, *self._batch_shape, p)
        chi = (2 * _C._standard_gamma((degrees / 2).expand(shape))).sqrt()
        noise = _C.randn((*shape, p), dtype=L.dtype, device=L.device).tril(-1)
        A = L @ (noise + chi.to(L.dtype).diag_embed())
        return A @ A.mT

    def _log_det(self, L):
        return 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        L = self._unbroadcasted_scale_tril
        own = linalg.cholesky(value)
        half = linalg.solve_triangular(L.expand(own.shape), own, upper=False)
        trace = half.pow(2).sum((-2, -1))  # of V^-1 X
        return (
            -nu * (p * math.log(2) + self._log_det(L)) / 2 - _C.mvlgamma(nu / 2, p)
            + (nu - p - 1) / 2 * self._log_det(own) - trace / 2
        )  # fmt: skip

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        offsets = _C.arange(p, dtype=nu.dtype, device=nu.device)
        digammas = _C.digamma((nu.unsqueeze(-1) - offsets) / 2).sum(-1)
        log_det = self._log_det(self._unbroadcasted_scale_tril)
        return (
            (p + 1) / 2 * (log_det + p * math.log(2)) + _C.mvlgamma(nu / 2, p)
            - (nu - p - 1) / 2 * digammas + nu * p / 2
        )  # fmt: skip

    @property
    def _natural_params(self):
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._event_shape[-1] - 1)
