"""Transforms of whole vectors and matrices, and of pieces of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._elementwise_transforms import SigmoidTransform
from rushlight.distributions._transform import SameKind, Transform
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _sum_rightmost
from rushlight.nn import functional as F

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint


class CorrCholeskyTransform(Transform):
    """Any vector of n (n - 1) / 2 numbers as the factor of an n by n correlation matrix: tanh
    gives partial correlations, which fill the rows (Stan's reference manual, 10.12).

    Arguments:
        cache_size: 1 keeps the last pair.

    Example:
        >>> rl.distributions.CorrCholeskyTransform(cache_size=1)(rl.tensor([0.0]))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        from rushlight.distributions.utils import vec_to_tril_matrix

        eps = _C.finfo(x.dtype).eps
        x = _C.tanh(x).clamp(min=-1 + eps, max=1 - eps)
        r = vec_to_tril_matrix(x, diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)  # what remains of the row's length
        r = r + _C.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        from rushlight.distributions.utils import tril_matrix_to_vec

        left = 1 - (y * y).cumsum(-1)
        left = F.pad(left[..., :-1], [1, 0], value=1)
        values = tril_matrix_to_vec(y, diag=-1)
        lengths = tril_matrix_to_vec(left, diag=-1).sqrt()
        t = values / lengths
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        from rushlight.distributions.utils import tril_matrix_to_vec

        stick = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        tanh = -2 * (x + F.softplus(-2 * x) - 0.6931471805599453).sum(-1)
        return stick + tanh

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("CorrCholeskyTransform: too few dimensions on input")
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError(f"CorrCholeskyTransform: {count} numbers fill no triangle")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError("CorrCholeskyTransform: expected square matrices")
        n = shape[-1]
        return (*shape[:-2], n * (n - 1) // 2)


class SoftmaxTransform(SameKind):
    """Vectors to probabilities; not invertible, since a constant is lost.

    Arguments:
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.SoftmaxTransform(cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([0.3775, 0.6225])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        return F.softmax(x, -1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("SoftmaxTransform: too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(SameKind):
    """Any vector of n numbers as n + 1 probabilities: each breaks a share off what is left.

    Arguments:
        cache_size: 1 keeps the last pair, so that inverses are free and exact.

    Example:
        >>> t = rl.distributions.StickBreakingTransform(cache_size=1)
        >>> t(rl.tensor([0.5, 1.0]))
        tensor([0.4519, 0.4007, 0.1474])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _offset(self, count, like):
        # So that zeros give equal shares.
        return like.new_ones(like.shape[-1] if count is None else count).cumsum(-1)

    def _call(self, x):
        offset = x.shape[-1] + 1 - self._offset(None, x)
        z = SigmoidTransform()(x - offset.log())
        left = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y):
        cut = y[..., :-1]
        offset = y.shape[-1] - self._offset(cut.shape[-1], cut)
        left = 1 - cut.cumsum(-1)
        left = left.clamp(min=_C.finfo(y.dtype).tiny)
        return cut.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        offset = x.shape[-1] + 1 - self._offset(None, x)
        x = x - offset.log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("StickBreakingTransform: too few dimensions on input")
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("StickBreakingTransform: too few dimensions on input")
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(SameKind):
    """Matrices as lower triangular ones with a positive diagonal.

    Arguments:
        cache_size: 1 keeps the last pair.

    Example:
        >>> rl.distributions.LowerCholeskyTransform(cache_size=1)(rl.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(SameKind):
    """Matrices as symmetric positive definite ones.

    Arguments:
        cache_size: 1 keeps the last pair.

    Example:
        >>> rl.distributions.PositiveDefiniteTransform(cache_size=1)(rl.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y):
        from rushlight import linalg

        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CatTransform(Transform):
    """Several transforms, each on a part of a tensor along a dim.

    Arguments:
        tseq: transforms, one per part.
        dim: the dim.
        lengths: of the parts; None is 1 each.
        cache_size: 1 keeps the last pair.

    Example:
        >>> D = rl.distributions
        >>> D.CatTransform([D.ExpTransform(), D.AbsTransform()], lengths=[1, 2])(rl.tensor([0.0,
        ...     -2.0, 3.0]))
        tensor([1., 2., 3.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0,
                 lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:  # fmt: skip
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError("CatTransform: as many lengths as transforms are needed")
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x):
        return x.split(self.lengths, self.dim)

    def _call(self, x):
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return _C.cat([t(part) for t, part in pairs], self.dim)

    def _inverse(self, y):
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return _C.cat([t.inv(part) for t, part in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = []
        for t, xs, ys in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            jacobian = t.log_abs_det_jacobian(xs, ys)
            found.append(_sum_rightmost(jacobian, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return _C.cat(found, dim) if dim < 0 else sum(found)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Several transforms, each on a slice of a tensor along a dim.

    Arguments:
        tseq: transforms, one per slice.
        dim: the dim.
        cache_size: 1 keeps the last pair.

    Example:
        >>> D = rl.distributions
        >>> D.StackTransform([D.ExpTransform(), D.AbsTransform()], dim=0)(rl.tensor([0.0, -2.0]))
        tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x):
        if x.size(self.dim) != len(self.transforms):
            raise AssertionError("StackTransform: one slice per transform is needed")
        return x.unbind(self.dim)

    def _call(self, x):
        pairs = zip(self.transforms, self._slices(x), strict=True)
        return _C.stack([t(part) for t, part in pairs], self.dim)

    def _inverse(self, y):
        pairs = zip(self.transforms, self._slices(y), strict=True)
        return _C.stack([t.inv(part) for t, part in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        rows = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return _C.stack([t.log_abs_det_jacobian(xs, ys) for t, xs, ys in rows], self.dim)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = the cumulative probability of x under a distribution.

    Arguments:
        distribution: the distribution.
        cache_size: 1 keeps the last pair.

    Example:
        >>> normal = rl.distributions.Normal(0.0, 1.0)
        >>> rl.distributions.CumulativeDistributionTransform(normal, cache_size=1)(rl.tensor(0.0))
        tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
