"""The standard's linear algebra: rushlight.linalg with its names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import linalg as _linalg
from rushlight._C import Tensor
from rushlight.array_api._elementwise import multiply as _multiply  # type: ignore[attr-defined]
from rushlight.array_api._elementwise import promoted
from rushlight.array_api._functions import matmul, matrix_transpose, tensordot, vecdot
from rushlight.linalg import cholesky as _cholesky
from rushlight.linalg import (
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    matrix_power,
    qr,
    slogdet,
    svdvals,
)
from rushlight.types import _dtype

if TYPE_CHECKING:
    from rushlight import return_types

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor."""
    return _cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int | Sequence[int] | None = -1) -> Tensor:
    """The product of vectors in space."""
    x1, x2 = promoted(x1, x2)
    missing = x1.ndim - x2.ndim  # the fewer dims are filled up with ones
    x1 = x1.reshape(*[1] * max(-missing, 0), *x1.shape)
    x2 = x2.reshape(*[1] * max(missing, 0), *x2.shape)
    return _linalg.cross(x1, x2, dim=axis)  # type: ignore[arg-type]


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return x.diagonal(offset, -2, -1)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: str = "fro") -> Tensor:
    """The norm of matrices."""
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The number of singular values above rtol times the largest."""
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of two vectors' elements."""
    x1, x2 = promoted(x1, x2)
    return _multiply(x1.unsqueeze(-1), x2.unsqueeze(0))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse."""
    return _linalg.pinv(x, rtol=rtol)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """X with x1 X = x2; a vector is one only if it has one dimension."""
    x1, x2 = promoted(x1, x2)
    if x2.ndim == 1:
        return _linalg.solve(x1, x2.unsqueeze(-1)).squeeze(-1)
    if x2.ndim == x1.ndim - 1:
        x2 = x2.expand(*x1.shape[:-2], *x2.shape[-2:])
    return _linalg.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> return_types.linalg_svd:
    """U, S and Vh."""
    return _linalg.svd(x, full_matrices)


def trace(x: Tensor, /, *, offset: int = 0, dtype: _dtype | None = None) -> Tensor:
    """The sum of the diagonals."""
    from rushlight.array_api._functions import sum as total

    return total(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: int = 2
) -> Tensor:
    """The norm of vectors along axes, or of all elements."""
    return _linalg.vector_norm(x, ord, axis, keepdims)
