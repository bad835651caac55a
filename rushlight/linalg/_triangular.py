"""Cholesky's factorization and triangular systems."""

from rushlight import _C
from rushlight._out import write_out
from rushlight.functional import broadcast_shapes


class LinAlgError(RuntimeError):
    """A matrix for which the asked-for factor or solution does not exist."""


def _message(info):
    if info.ndim == 0:
        return f"the leading minor of order {info.item()} is not positive"
    at = int(info.reshape(-1).nonzero()[0])
    order = info.reshape(-1)[at].item()
    return f"(batch element {at}): the leading minor of order {order} is not positive"


def cholesky_ex(A, *, upper=False, check_errors=False, out=None):
    """The factor, and for each matrix 0 or the order of the first minor that is not positive."""
    L, info = _C._cholesky_ex(A)
    if check_errors and bool(info.any()):
        raise LinAlgError(
            f"linalg.cholesky_ex: the input is not positive definite: {_message(info)}"
        )
    L = L.mT if upper else L
    if out is not None:
        L, info = (
            write_out("linalg.cholesky_ex", *pair) for pair in zip((L, info), out, strict=True)
        )
    return _Factor((L, info))


class _Factor(tuple):
    """(L, info), with these names."""

    __slots__ = ()
    L = property(lambda self: self[0])
    info = property(lambda self: self[1])


def cholesky(A, *, upper=False, out=None):
    """L, lower triangular, with A = L L^T, of symmetric positive definite matrices."""
    L, info = _C._cholesky_ex(A)
    if not A.is_meta and bool(info.any()):
        raise LinAlgError(
            f"linalg.cholesky: the input is not positive definite: {_message(info)}. Is it "
            "symmetric, with no zero or negative eigenvalue? Adding a small multiple of the "
            "identity often helps"
        )
    return write_out("linalg.cholesky", L.mT if upper else L, out)


def solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    """X with A X = B (or X A = B with left=False), A triangular."""
    if not left:
        solution = solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
        return write_out("linalg.solve_triangular", solution, out)
    if A.ndim < 2 or B.ndim < 2:
        raise _C.ShapeError(
            "linalg.solve_triangular: A and B must be matrices or batches of them, got shapes "
            f"{list(A.shape)} and {list(B.shape)}"
        )
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A = A.expand(*batch, *A.shape[-2:])
    B = B.expand(*batch, *B.shape[-2:])
    return write_out(
        "linalg.solve_triangular", _C._solve_triangular(A, B, upper, unitriangular), out
    )
