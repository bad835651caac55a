"""Methods of Tensor that are made of others."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.absent import REMOVED
from rushlight._names.missing import removed
from rushlight._tensor import method, methods_of
from rushlight.types import _dtype

methods_of(
    "rushlight.linalg._old_names",
    """cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp
    matrix_power orgqr ormqr pinverse qr slogdet svd triangular_solve""",
)
methods_of("rushlight.fft._windowed", "istft stft")
methods_of(
    "rushlight._functions.copies",
    "_conj _conj_physical _neg_view as_strided_scatter unsafe_split_with_sizes",
)
methods_of("rushlight._functions.hashing", "hash_tensor")
methods_of("rushlight._functions.shapes", "nonzero_static")
methods_of("rushlight._functions.elements", "_is_all_true _is_any_true _is_zerotensor")
methods_of("rushlight._functions.products", "_addmm_activation")
_QUANTIZATION = "rushlight._functions.quantization"
methods_of(
    _QUANTIZATION,
    """dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
    q_zero_point""",
)
_QSCHEME = """How the tensor is quantized, such as per_tensor_affine.

Example:
    >>> rl.quantize_per_tensor(rl.ones(2), 0.5, 0, rl.qint8).qscheme()
    rushlight.per_tensor_affine
"""
methods_of(_QUANTIZATION, {"qscheme": _QSCHEME})

for _name in REMOVED:
    if _name != "matrix_rank":
        setattr(Tensor, _name, removed(_name))


@method
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that were broadcast from `size`.

    Example:
        >>> rl.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
    """
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = self.ndim - len(size)
    shape = tuple(self.shape)
    fits = extra >= 0 and all(
        s in (1, n) for s, n in zip(size, shape[max(extra, 0) :], strict=False)
    )
    if not fits:
        raise _C.ShapeError(f"sum_to_size: size {list(size)} cannot be broadcast to {list(shape)}")
    dims = [*range(extra)]
    dims += [extra + i for i, s in enumerate(size) if s == 1 and shape[extra + i] != 1]
    if not size:
        return self.sum()
    result = self.sum(dims, keepdim=True) if dims else self
    return result.reshape(size)


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a module does with a loaded value for this parameter: `other`, or a copy in place.

    Arguments:
        other: the value that was loaded.
        assign: take it itself, instead of copying it.

    Example:
        >>> x = rl.zeros(2)
        >>> x.module_load(rl.ones(2), assign=True), x
        (tensor([1., 1.]), tensor([0., 0.]))
    """
    return other.detach() if assign else self.detach().copy_(other)


@method
def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`narrow`, in memory of its own.

    Arguments:
        dim: along which dim.
        start, length: where the part begins, and how long it is.
    """
    if not -self.ndim <= dim < self.ndim:
        raise _C.RangeError(f"narrow_copy: dim {dim} is out of range for {self.ndim} dimensions")
    return self.narrow(dim, start, length).clone()


@method
def unsafe_chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Another name of `chunk`; PyTorch does not track that the pieces are views.

    Arguments:
        chunks: how many pieces.
        dim: along which dim.
    """
    return self.chunk(chunks, dim)


@method
def unsafe_split(self: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Another name of `split`; PyTorch does not track that the pieces are views.

    Arguments:
        split_size: how long each piece is.
        dim: along which dim.
    """
    return self.split(split_size, dim)


@method
def cholesky(self: Tensor, upper: bool = False) -> Tensor:
    """The factor L of L L^T (or its transpose): the old form of `linalg.cholesky`.

    Arguments:
        upper: give the transpose of L.

    Example:
        >>> rl.tensor([[4.0, 2.0], [2.0, 2.0]]).cholesky(upper=True)
        tensor([[2., 1.],
                [0., 1.]])
    """
    from rushlight import linalg

    return linalg.cholesky(self, upper=upper)


@method
def cov(
    self: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance of the rows, see `rl.cov`.

    Arguments:
        correction: the number of observations minus this is what sums are divided by.
        fweights: how often each column was observed.
        aweights: how much each column counts.

    Example:
        >>> rl.tensor([[0.0, 2.0], [3.0, 1.0]]).cov(correction=0)
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    from rushlight._functions.statistics import cov as run

    return run(self, correction=correction, fweights=fweights, aweights=aweights)


@method
def corrcoef(self: Tensor) -> Tensor:
    """The correlation of the rows, see `rl.corrcoef`.

    Example:
        >>> rl.tensor([[0.0, 2.0], [3.0, 1.0]]).corrcoef()
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    from rushlight._functions.statistics import corrcoef as run

    return run(self)


@method
def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along dim, those with a larger norm scaled down to maxnorm.

    Arguments:
        p: the p of the norm.
        dim: along which dim slices are taken.
        maxnorm: the largest norm that a slice may have.

    Example:
        >>> rl.tensor([[3.0, 3.0], [1.0, 0.0]]).renorm(1, 0, 2.0)
        tensor([[1., 1.],
                [1., 0.]])
    """
    from rushlight._functions.norms import renorm as run

    return run(self, p, dim, maxnorm)


@method
def renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The in-place form of `renorm`.

    Arguments:
        p: the p of the norm.
        dim: along which dim slices are taken.
        maxnorm: the largest norm that a slice may have.
    """
    return self.copy_(self.renorm(p, dim, maxnorm))


@method
def to_dense(self: Tensor, dtype: _dtype | None = None, *, masked_grad: bool = True) -> Tensor:
    """A sparse tensor with all its elements; a dense one as it is.

    Arguments:
        dtype: of the result; None keeps it.
        masked_grad: the gradient has elements only where the sparse tensor has them.

    Example:
        >>> rl.sparse_coo_tensor([[1]], [2.0], (3,)).to_dense(rl.int64)
        tensor([0, 2, 0])
    """
    if self.layout is not _C.strided:
        from rushlight.sparse._convert import to_dense

        return to_dense(self, dtype, masked_grad=masked_grad)
    return self if dtype is None else self.to(dtype)


def _reversed(self):
    return self if self.dim() == 0 else self.flip(0)


_reversed.__name__ = "__reversed__"
Tensor.__reversed__ = _reversed
