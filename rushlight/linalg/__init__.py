"""Linear algebra: norms, products, Cholesky's factorization and triangular systems so far."""

from math import inf

from rushlight import _C
from rushlight._missing import names_missing_from, not_available
from rushlight._out import write_out
from rushlight.linalg._matrix_functions import householder_product, matrix_exp
from rushlight.linalg._triangular import (
    LinAlgError,
    cholesky,
    cholesky_ex,
    solve_triangular,
)

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cross",
    "diagonal",
    "householder_product",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "norm",
    "solve_triangular",
    "vecdot",
    "vector_norm",
]


def matmul(input, other, *, out=None):
    """The matrix product."""
    return _C.matmul(input, other, out=out)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


def cross(input, other, *, dim=-1, out=None):
    """The product of vectors in space, along a dim of size 3."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: expects as many dimensions on both sides, got shapes "
                           f"{list(input.shape)} and {list(other.shape)}")  # fmt: skip
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"linalg.cross: dim {dim} is out of range "
                         f"(from {-input.ndim} to {input.ndim - 1})")  # fmt: skip
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(f"linalg.cross: dim {dim} must have size 3, got shapes "
                           f"{list(input.shape)} and {list(other.shape)}")  # fmt: skip

    def turned(v, by):  # y, z, x or z, x, y
        return v.roll(-by, dim)

    result = turned(input, 1) * turned(other, 2) - turned(input, 2) * turned(other, 1)
    return write_out("linalg.cross", result, out)


def vecdot(x, y, *, dim=-1, out=None):
    """The inner products of vectors along a dim; the first ones are conjugated."""
    result = (x.conj() * y).sum(dim)
    return write_out("linalg.vecdot", result, out)


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of order `ord` of all elements or along dims."""
    if not (x.is_floating_point() or x.is_complex()):
        raise _C.DTypeError(f"linalg.vector_norm: needs floating or complex numbers, got {x.dtype}")
    return _C._vector_norm(x, ord, dim, keepdim, dtype=dtype, out=out)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """The norm of matrices: 'fro', or the extreme sum of columns (1, -1) or rows (inf, -inf)."""
    if A.ndim < 2:
        raise RuntimeError(f"linalg.matrix_norm: needs at least 2 dims, got shape {list(A.shape)}")
    if dtype is not None:
        A = A.to(dtype)
    rows, columns = (d % A.ndim for d in dim)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, out=out)
    if ord not in (1, -1, inf, -inf):
        raise NotImplementedError(f"linalg.matrix_norm: ord {ord!r} needs singular values")
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(inner, keepdim=True)
    result = sums.amax((outer,), keepdim=True) if ord > 0 else sums.amin((outer,), keepdim=True)
    if not keepdim:
        result = result.squeeze((rows, columns))
    return write_out("linalg.matrix_norm", result, out)


def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A matrix norm for a matrix or two dims with an order, else a vector norm."""
    if isinstance(ord, str) or (ord is not None and (
        (dim is None and A.ndim == 2) or (isinstance(dim, tuple | list) and len(dim) == 2)
    )):  # fmt: skip
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


# Names to import; calling them raises.
for _name in """cond det eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor
        ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matrix_exp
        matrix_power matrix_rank multi_dot pinv qr slogdet solve solve_ex svd svdvals
        tensorinv tensorsolve vander""".split():
    if _name not in globals():
        globals()[_name] = not_available(
            f"linalg.{_name}",
            "of linear algebra only norms, products and Cholesky's factorization are there yet",
        )

__getattr__ = names_missing_from(__name__)
