"""The few largest singular values and eigenvalues of large matrices, by random projections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.publish import publish
from rushlight.linalg._factor import qr
from rushlight.linalg._solve import solve_triangular
from rushlight.linalg._spectral import eigh, svd

__all__ = ["lobpcg", "pca_lowrank", "svd_lowrank"]


def _range(A, q, niter, M):
    """Orthonormal columns that nearly span the range of A - M (Halko, Martinsson, Tropp 2009)."""

    def times(x):
        return A @ x if M is None else A @ x - M @ x

    def adjoint_times(x):
        return A.mH @ x if M is None else A.mH @ x - M.mH @ x

    start = _C.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = qr(times(start)).Q
    for _ in range(niter):
        Q = qr(adjoint_times(Q)).Q
        Q = qr(times(Q)).Q
    return Q


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V of a matrix (or of A - M) of which about the first q matter: A is nearly U
    diag(S) V^H.

    Arguments:
        A: (..., m, n).
        q: how many singular values.
        niter: iterations, which make it more exact.
        M: subtracted from A, without making A - M.

    Example:
        >>> U, S, V = rl.svd_lowrank(rl.diag(rl.tensor([5.0, 3.0, 1.0])), q=2)
        >>> S
        tensor([5., 3.])
    """
    rows, cols = A.shape[-2:]
    if q is not None and q < 0:
        raise _C.ArgumentError(f"svd_lowrank: q must not be negative, got {q}")
    q = min(6 if q is None else int(q), rows, cols)
    if M is not None:
        M = M.broadcast_to(A.shape)
    turned = rows < cols
    if turned:
        A, M = A.mH, None if M is None else M.mH
    Q = _range(A, q, niter, M)
    B = Q.mH @ A if M is None else Q.mH @ A - Q.mH @ M
    U, S, Vh = svd(B, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if turned else (U, S, V)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """The first q principal components of the rows of A, by svd_lowrank of A less its mean.

    Arguments:
        A: (..., m, n).
        q: how many components; None is at most 6.
        center: subtract the mean of the rows.
        niter: iterations, which make it more exact.

    Example:
        >>> A = rl.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> U, S, V = rl.pca_lowrank(A, q=1)
        >>> S
        tensor([4.])
    """
    if not (A.is_floating_point() or A.is_complex()):
        raise ValueError(f"pca_lowrank: needs floating numbers, got {A.dtype}")
    rows, cols = A.shape[-2:]
    if q is None:
        q = min(6, rows, cols)
    if not 0 <= q <= min(rows, cols):
        raise ValueError(f"pca_lowrank: q must lie between 0 and {min(rows, cols)}, got {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter must not be negative, got {niter}")
    if not center:
        return svd_lowrank(A, q, niter=niter)
    return svd_lowrank(A - A.mean(-2, keepdim=True), q, niter=niter)


def lobpcg(A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None,
           n: int | None = None, iK: Tensor | None = None, niter: int | None = None,
           tol: float | None = None, largest: bool | None = None, method: str | None = None,
           tracker: Callable[..., Any] | None = None, ortho_iparams: dict[str, int] | None = None,
           ortho_fparams: dict[str, float] | None = None,
           ortho_bparams: dict[str, bool] | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k largest (or smallest) eigenvalues of A x = lambda B x, and their vectors.

    Matrices are dense here, so they come from the full decomposition, which is exact: the iteration
    and its parameters have nothing to do.

    Arguments:
        A: (..., m, m), symmetric.
        k: how many; None is as many as X has columns, or 1.
        B: (..., m, m), positive definite; None is the identity.
        X: vectors to begin with; only their number counts.
        largest: the largest (None: yes) or the smallest.
        n, iK, niter, tol, method, tracker, ortho_iparams, ortho_fparams, ortho_bparams: accepted.

    Example:
        >>> rl.lobpcg(rl.diag(rl.tensor([1.0, 3.0, 2.0])), k=2, largest=False)[0]
        tensor([1., 2.])
    """
    k = (X.shape[-1] if X is not None else 1) if k is None else k
    size = A.shape[-1]
    if A.shape[-2] != size:
        raise _C.ShapeError(f"lobpcg: A must be square, got shape {list(A.shape)}")
    if not 1 <= k <= size:
        raise ValueError(f"lobpcg: k must lie between 1 and {size}, got {k}")
    if B is None:
        values, vectors = eigh((A + A.mH) / 2)
    else:  # L^-1 A L^-H y = lambda y with B = L L^H, x = L^-H y
        from rushlight.linalg._factor import cholesky

        L = cholesky(B)
        inner = solve_triangular(L, solve_triangular(L, A, upper=False).mH, upper=False)
        values, vectors = eigh((inner + inner.mH) / 2)
        vectors = solve_triangular(L.mH, vectors, upper=True)
    if largest is None or largest:
        return values[..., size - k :].flip(-1), vectors[..., :, size - k :].flip(-1)
    return values[..., :k], vectors[..., :, :k]


publish(globals(), "", __all__)
