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
methods_of(_QUANTIZATION, "qscheme", told_by=_QUANTIZATION)

for _name in REMOVED:
    if _name != "matrix_rank":
        setattr(Tensor, _name, removed(_name))


@method
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that were broadcast from `size`."""
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
    """What a module does with a loaded value for this parameter: `other`, or a copy in place."""
    return other.detach() if assign else self.detach().copy_(other)


@method
def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """narrow, in memory of its own."""
    if not -self.ndim <= dim < self.ndim:
        raise _C.RangeError(f"narrow_copy: dim {dim} is out of range for {self.ndim} dimensions")
    return self.narrow(dim, start, length).clone()


@method
def unsafe_chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """chunk, in PyTorch without tracking that the pieces are views."""
    return self.chunk(chunks, dim)


@method
def unsafe_split(self: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """split, in PyTorch without tracking that the pieces are views."""
    return self.split(split_size, dim)


@method
def cholesky(self: Tensor, upper: bool = False) -> Tensor:
    """The factor L of L L^T (or its transpose)."""
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
    """The covariance of the rows."""
    from rushlight._functions.statistics import cov as run

    return run(self, correction=correction, fweights=fweights, aweights=aweights)


@method
def corrcoef(self: Tensor) -> Tensor:
    """The correlation of the rows."""
    from rushlight._functions.statistics import corrcoef as run

    return run(self)


@method
def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along dim, those with a larger norm scaled down to maxnorm."""
    from rushlight._functions.norms import renorm as run

    return run(self, p, dim, maxnorm)


@method
def renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """renorm in place."""
    return self.copy_(self.renorm(p, dim, maxnorm))


@method
def to_dense(self: Tensor, dtype: _dtype | None = None, *, masked_grad: bool = True) -> Tensor:
    """A sparse tensor with all its elements; a dense one as it is."""
    if self.layout is not _C.strided:
        from rushlight.sparse._convert import to_dense

        return to_dense(self, dtype, masked_grad=masked_grad)
    return self if dtype is None else self.to(dtype)


def _reversed(self):
    return self if self.dim() == 0 else self.flip(0)


_reversed.__name__ = "__reversed__"
Tensor.__reversed__ = _reversed
