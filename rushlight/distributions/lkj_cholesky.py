"""The distribution of Lewandowski, Kurowicka and Joe over correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.beta import Beta
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower factors L of dim by dim correlation matrices, which have the density det(L
    L^T)^(concentration - 1); concentration 1 is uniform.

    Arguments:
        dim: rows of the matrices.
        concentration: above 1 correlations are smaller, below larger.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> L = rl.distributions.LKJCholesky(3, concentration=2.0).sample()
        >>> rl.allclose((L @ L.T).diagonal(), rl.ones(3), atol=1e-5)
        True
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expands = ("concentration", "_beta")
    _keeps = ("dim",)

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim must be an int of at least 2, got {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        batch, event = self.concentration.size(), Size((dim, dim))
        # The onion method draws row by row; this is the law of each row's squared length.
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = _C.arange(
            dim - 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        offset = _C.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(batch, event, validate_args)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            squared = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            u = _C.randn(shape, dtype=squared.dtype, device=squared.device).tril(-1)
            directions = u / u.norm(dim=-1, keepdim=True)
            directions[..., 0, :] = 0.0
            w = squared.sqrt() * directions
            eps = _C.finfo(w.dtype).tiny
            diagonal = (1 - w.pow(2).sum(-1)).clamp(min=eps).sqrt()
            return w + _C.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = _C.arange(2, self.dim + 1, dtype=self.concentration.dtype, device=value.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * diagonal.log()).sum(-1)
        rest = self.dim - 1
        alpha = self.concentration + 0.5 * rest
        denominator = _C.lgamma(alpha) * rest
        numerator = _C.mvlgamma(alpha - 0.5, rest)
        normalizer = 0.5 * rest * math.log(math.pi) + numerator - denominator
        return unnormalized - normalizer
