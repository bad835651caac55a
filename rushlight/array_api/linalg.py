"""The standard's linear algebra: rushlight.linalg with its names."""

from rushlight import linalg as _linalg
from rushlight.array_api._elementwise import multiply as _multiply
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


def cholesky(x, /, *, upper=False):
    """The triangular factor."""
    return _cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    """The product of vectors in space."""
    x1, x2 = promoted(x1, x2)
    missing = x1.ndim - x2.ndim  # the fewer dims are filled up with ones
    x1 = x1.reshape(*[1] * max(-missing, 0), *x1.shape)
    x2 = x2.reshape(*[1] * max(missing, 0), *x2.shape)
    return _linalg.cross(x1, x2, dim=axis)


def diagonal(x, /, *, offset=0):
    """The diagonals of matrices."""
    return x.diagonal(offset, -2, -1)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of matrices."""
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x, /, *, rtol=None):
    """The number of singular values above rtol times the largest."""
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1, x2, /):
    """All products of two vectors' elements."""
    x1, x2 = promoted(x1, x2)
    return _multiply(x1.unsqueeze(-1), x2.unsqueeze(0))


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse."""
    return _linalg.pinv(x, rtol=rtol)


def solve(x1, x2, /):
    """X with x1 X = x2; a vector is one only if it has one dimension."""
    x1, x2 = promoted(x1, x2)
    if x2.ndim == 1:
        return _linalg.solve(x1, x2.unsqueeze(-1)).squeeze(-1)
    if x2.ndim == x1.ndim - 1:
        x2 = x2.expand(*x1.shape[:-2], *x2.shape[-2:])
    return _linalg.solve(x1, x2)


def svd(x, /, *, full_matrices=True):
    """U, S and Vh."""
    return _linalg.svd(x, full_matrices)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of the diagonals."""
    from rushlight.array_api._functions import sum as total

    return total(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """The norm of vectors along axes, or of all elements."""
    return _linalg.vector_norm(x, ord, axis, keepdims)
