"""Singular values and eigenvalues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out
from rushlight.linalg._results import NOT_CONVERGED, check_info, named, with_out

if TYPE_CHECKING:
    from rushlight import return_types

SVD = named("linalg_svd", ("U", "S", "Vh"))
OldSVD = named("svd", ("U", "S", "V"))
Eig = named("linalg_eig", ("eigenvalues", "eigenvectors"))
Eigh = named("linalg_eigh", ("eigenvalues", "eigenvectors"))


@autocast_policy(cpu="float32")
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None,
        out: Sequence[Tensor] | None = None) -> return_types.linalg_svd:  # fmt: skip
    """U, S and Vh with A = U diag(S) Vh, S falling.

    Arguments:
        A: (..., m, n).
        full_matrices: U and Vh are square; False leaves out what meets no singular value, which
            is nearly always enough.
        driver: accepted; it chooses a method of cuSOLVER in PyTorch.
        out: tensors to write the results into, in their order.

    Example:
        >>> U, S, Vh = rl.linalg.svd(rl.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]),
        ...     full_matrices=False)
        >>> S, U.shape
        (tensor([4., 3.]), rushlight.Size([3, 2]))
    """
    U, S, Vh, info = _C._svd(A, full_matrices, driver or "")
    check_info(info, "linalg.svd", NOT_CONVERGED)
    return with_out("linalg.svd", SVD((U, S, Vh)), out)


@autocast_policy(cpu="float32")
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values, falling.

    Arguments:
        A: (..., m, n).
        driver: accepted.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.svdvals(rl.tensor([[3.0, 0.0], [0.0, 4.0]]), driver=None)
        tensor([4., 3.])
    """
    S, info = _C._svdvals(A, driver or "")
    check_info(info, "linalg.svdvals", NOT_CONVERGED)
    return write_out("linalg.svdvals", S, out)


@autocast_policy(cpu="float32")
def old_svd(input: Tensor, some: bool = True, compute_uv: bool = True, *,
            out: Sequence[Tensor] | None = None) -> return_types.svd:  # fmt: skip
    """U, S and V (not its adjoint): the old form of linalg.svd.

    Arguments:
        input: (..., m, n).
        some: leave out what meets no singular value.
        compute_uv: False gives zeros for U and V.
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.svd(rl.tensor([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False).S
        tensor([4., 3.])
    """
    if not compute_uv:
        rows, cols = input.shape[-2:]
        zeros = [input.new_zeros(*input.shape[:-2], n, n) for n in (rows, cols)]
        return with_out("svd", OldSVD((zeros[0], svdvals(input), zeros[1])), out)
    U, S, Vh = svd(input, not some)
    return with_out("svd", OldSVD((U, S, Vh.mH)), out)


def _upper(op, UPLO):
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"{op}: UPLO must be 'L' or 'U', got {UPLO!r}")
    return UPLO in "Uu"


@autocast_policy(cpu="float32")
def eigh(
    A: Tensor, UPLO: str = "L", *, out: Sequence[Tensor] | None = None
) -> return_types.linalg_eigh:
    """The eigenvalues, rising, and eigenvectors of symmetric or Hermitian matrices, of which one
    triangle is read.

    Faster and more exact than eig, with real eigenvalues. The sign of a vector is arbitrary.

    Arguments:
        A: (..., n, n), of which one triangle is read.
        UPLO: which: 'L' or 'U'.
        out: tensors to write the results into, in their order.

    Returns: (eigenvalues, eigenvectors): vectors are columns.

    Example:
        >>> values, Q = rl.linalg.eigh(rl.tensor([[2.0, 1.0], [1.0, 2.0]]), UPLO="U")
        >>> values
        tensor([1., 3.])
    """
    values, vectors, info = _C._eigh(A, _upper("linalg.eigh", UPLO))
    check_info(info, "linalg.eigh", NOT_CONVERGED)
    return with_out("linalg.eigh", Eigh((values, vectors)), out)


@autocast_policy(cpu="float32")
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of symmetric or Hermitian matrices, rising.

    Arguments:
        A: (..., n, n), of which one triangle is read.
        UPLO: which: 'L' or 'U'.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.eigvalsh(rl.tensor([[2.0, 1.0], [1.0, 2.0]]), UPLO="U")
        tensor([1., 3.])
    """
    values, info = _C._eigvalsh(A, _upper("linalg.eigvalsh", UPLO))
    check_info(info, "linalg.eigvalsh", NOT_CONVERGED)
    return write_out("linalg.eigvalsh", values, out)


@autocast_policy(cpu="float32")
def eig(A: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.linalg_eig:
    """The complex eigenvalues and eigenvectors of square matrices.

    Arguments:
        A: (..., n, n).
        out: tensors to write the results into, in their order.

    Returns: (eigenvalues, eigenvectors): complex; vectors are columns of length 1.

    Example:
        >>> values, vectors = rl.linalg.eig(rl.tensor([[0.0, -1.0], [1.0, 0.0]]))
        >>> values
        tensor([0.+1.j, 0.-1.j])
    """
    values, vectors, info = _C._eig(A)
    check_info(info, "linalg.eig", NOT_CONVERGED)
    return with_out("linalg.eig", Eig((values, vectors)), out)


@autocast_policy(cpu="float32")
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex eigenvalues of square matrices.

    Arguments:
        A: (..., n, n).
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.eigvals(rl.tensor([[0.0, -1.0], [1.0, 0.0]])).imag.sort().values
        tensor([-1.,  1.])
    """
    values, info = _C._eigvals(A)
    check_info(info, "linalg.eigvals", NOT_CONVERGED)
    return write_out("linalg.eigvals", values, out)
