"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out
from rushlight.functional import broadcast_shapes
from rushlight.linalg._results import (
    NOT_CONVERGED,
    SINGULAR,
    check_info,
    is_vector_rhs,
    named,
    need_matrices,
    same_batch,
    tracked,
    with_out,
)

if TYPE_CHECKING:
    from rushlight import return_types

SolveEx = named("linalg_solve_ex", ("result", "info"))
InvEx = named("linalg_inv_ex", ("inverse", "info"))
Slogdet = named("linalg_slogdet", ("sign", "logabsdet"))
Lstsq = named("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
TriangularSolve = named("triangular_solve", ("solution", "cloned_coefficient"))


def _solve(op, A, B, left):
    need_matrices(op, A=A)
    vector = is_vector_rhs(A, B)
    if vector:
        if not left:
            raise _C.ArgumentError(f"{op}: left=False needs matrices on both sides, B is a vector")
        B = B.unsqueeze(-1)
    own_batch = A.shape[:-2]
    A, B = same_batch(op, A, B)
    if left:
        X, _, _, info = _C._solve_ex(A, B)
    else:  # X A = B is A^T X^T = B^T
        X, _, _, info = _C._solve_ex(A.mT, B.mT)
        X = X.mT
    if info.shape != own_batch:  # one a matrix, however often it was used
        if info.numel() == 0:
            info = info.new_zeros(own_batch)
        while info.ndim > len(own_batch):
            info = info.select(0, 0)
        for d, n in enumerate(own_batch):
            if n == 1 and info.shape[d] > 1:
                info = info.narrow(d, 0, 1)
    return X.squeeze(-1) if vector else X, info


@autocast_policy(cpu="float32")
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """X with A X = B, or X A = B with left=False; B may be a vector.

    Arguments:
        A: (..., n, n).
        B: (..., n, k) or (..., n).
        left: solve A X = B, not X A = B.
        out: a tensor to write the result into.

    Raises: LinAlgError if a matrix has no inverse.

    Example:
        >>> A = rl.tensor([[3.0, 1.0], [1.0, 2.0]])
        >>> rl.linalg.solve(A, rl.tensor([9.0, 8.0]))
        tensor([2., 3.])
        >>> rl.linalg.solve(A, rl.tensor([[9.0, 8.0]]), left=False)
        tensor([[2., 3.]])
    """
    X, info = _solve("linalg.solve", A, B, left)
    check_info(info, "linalg.solve", SINGULAR)
    return write_out("linalg.solve", X, out)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False,
             out: Sequence[Tensor] | None = None) -> return_types.linalg_solve_ex:  # fmt: skip
    """X with A X = B, and where U of LU has its first zero, or 0.

    Arguments:
        A: (..., n, n).
        B: (..., n, k) or (..., n).
        left: solve A X = B, not X A = B.
        check_errors: raise as solve does.
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.linalg.solve_ex(rl.eye(2), rl.ones(2), check_errors=True)
        rushlight.return_types.linalg_solve_ex(
        result=tensor([1., 1.]),
        info=tensor(0, dtype=rushlight.int32))
    """
    result = SolveEx(_solve("linalg.solve_ex", A, B, left))
    if check_errors:
        check_info(result.info, "linalg.solve_ex", SINGULAR)
    return with_out("linalg.solve_ex", result, out)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True,
                     unitriangular: bool = False, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """X with A X = B (or X A = B with left=False), A triangular.

    Arguments:
        A: (..., n, n); the other triangle is not read.
        B: (..., n, k).
        upper: A is upper triangular.
        left: solve A X = B, not X A = B.
        unitriangular: the diagonal of A is 1 and not read.
        out: a tensor to write the result into.

    Example:
        >>> A = rl.tensor([[2.0, 0.0], [1.0, 4.0]])
        >>> rl.linalg.solve_triangular(A, rl.tensor([[2.0], [5.0]]), upper=False, left=True)
        tensor([[1.],
                [1.]])
    """
    need_matrices("linalg.solve_triangular", A=A, B=B)
    A, B = same_batch("linalg.solve_triangular", A, B)
    if left:
        X = _C._solve_triangular(A, B, upper, unitriangular)
    else:
        X = _C._solve_triangular(A.mT, B.mT, not upper, unitriangular).mT
    return write_out("linalg.solve_triangular", X, out)


@autocast_policy(cpu="float32")
def triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False, *, out: Sequence[Tensor] | None = None
                     ) -> return_types.triangular_solve:  # fmt: skip
    """X with A X = input, A triangular, and A: the old form of linalg.solve_triangular.

    Arguments:
        input: (..., m, k), the right-hand sides.
        A: (..., m, m).
        upper: A is upper triangular, else lower.
        transpose: solve with the transpose of A.
        unitriangular: take the diagonal of A as ones.
        out: tensors to write the two results into.

    Example:
        >>> A = rl.tensor([[2.0, 1.0], [0.0, 1.0]])
        >>> rl.triangular_solve(rl.ones(2, 1), A, transpose=True).solution
        tensor([[0.5000],
                [0.5000]])
    """
    need_matrices("triangular_solve", input=input, A=A)
    A, b = same_batch("triangular_solve", A, input)
    if transpose:
        X = _C._solve_triangular(A.mT, b, not upper, unitriangular)
    else:
        X = _C._solve_triangular(A, b, upper, unitriangular)
    return with_out("triangular_solve", TriangularSolve((X, A.clone())), out)


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,
             out: Tensor | None = None) -> Tensor:  # fmt: skip
    """X with A X = B (or X A = B), A (or, with adjoint, A^H) by its LU factors.

    Arguments:
        LU, pivots: what lu_factor gave.
        B: (..., n, k).
        left: solve A X = B, not X A = B.
        adjoint: with A^H in place of A.
        out: a tensor to write the result into.

    Example:
        >>> factors = rl.linalg.lu_factor(rl.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> rl.linalg.lu_solve(*factors, rl.ones(2, 1), adjoint=True)
        tensor([[0.5000],
                [0.2500]])
    """
    need_matrices("linalg.lu_solve", LU=LU, B=B)
    LU, B = same_batch("linalg.lu_solve", LU, B)
    pivots = pivots.expand(LU.shape[:-1])
    if left:
        X = _C._lu_solve(LU, pivots, B, adjoint)
    else:  # X A = B is A^H X^H = B^H
        X = _C._lu_solve(LU, pivots, B.mH, not adjoint).mH
    return write_out("linalg.lu_solve", X, out)


@autocast_policy(cpu="float32")
def old_lu_solve(
    input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """linalg.lu_solve by its old name, with the right-hand side first."""
    return lu_solve(LU_data, LU_pivots, input, out=out)


@autocast_policy(cpu="float32")
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverses of square matrices.

    To solve A X = B, use solve: it is faster and more exact than the inverse.

    Arguments:
        A: (..., n, n).
        out: a tensor to write the result into.

    Raises: LinAlgError if a matrix has no inverse.

    Example:
        >>> rl.linalg.inv(rl.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    inverse, info = _C._inv_ex(A)
    check_info(info, "linalg.inv", SINGULAR)
    return write_out("linalg.inv", inverse, out)


@autocast_policy(cpu="float32")
def inv_ex(
    A: Tensor, *, check_errors: bool = False, out: Sequence[Tensor] | None = None
) -> return_types.linalg_inv_ex:
    """The inverses, and where U of LU has its first zero, or 0.

    Arguments:
        A: (..., n, n).
        check_errors: raise as inv does.
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.linalg.inv_ex(rl.zeros(2, 2), check_errors=False).info
        tensor(1, dtype=rushlight.int32)
    """
    result = InvEx(_C._inv_ex(A))
    if check_errors:
        check_info(result.info, "linalg.inv_ex", SINGULAR)
    return with_out("linalg.inv_ex", result, out)


def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinants of square matrices.

    Arguments:
        A: (..., n, n).
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.det(rl.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor(-2.0000)
    """
    return write_out("linalg.det", _C._det(A)[0], out)


def slogdet(A: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.linalg_slogdet:
    """The sign of the determinants and the logarithm of their absolute value.

    Neither overflows nor underflows, unlike det.

    Arguments:
        A: (..., n, n).
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.linalg.slogdet(rl.tensor([[0.0, 2.0], [3.0, 0.0]]))
        rushlight.return_types.linalg_slogdet(
        sign=tensor(-1.),
        logabsdet=tensor(1.7918))
    """
    sign, logabsdet, _, _ = _C._slogdet(A)
    return with_out("linalg.slogdet", Slogdet((sign, logabsdet)), out)


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinants; nan where they are negative.

    Arguments:
        input: (..., n, n).

    Example:
        >>> rl.logdet(rl.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor(1.7918)
    """
    sign, logabsdet, _, _ = _C._slogdet(input)
    if input.is_complex():
        return sign.log() + logabsdet
    return _C.where(sign == -1, logabsdet.new_full((), math.nan), logabsdet)


def _tolerances(A, atol, rtol, real):
    """atol and rtol as tensors of the batch's shape; by default rtol is eps times the longer side,
    and 0 where an atol is given."""
    eps = _C.finfo(real).eps * max(A.shape[-2:])
    if rtol is None:
        if isinstance(atol, _C.Tensor):
            rtol = _C.where(atol > 0, 0.0, eps)
        else:
            rtol = eps if atol is None or atol <= 0 else 0.0
    made = []
    for t in (0.0 if atol is None else atol, rtol):
        if not isinstance(t, _C.Tensor):
            t = _C.full((), float(t), dtype=real, device=A.device)
        made.append(t.to(real).expand(A.shape[:-2]))
    return made


def real_dtype(A):
    """The dtype of A's absolute values."""
    return {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(A.dtype, A.dtype)


def pinv(A: Tensor, rcond: float | Tensor | None = None, hermitian: bool = False, *,
         atol: float | Tensor | None = None, rtol: float | Tensor | None = None,
         out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The pseudo-inverse; singular values up to max(atol, rtol times the largest) count as zero.

    Arguments:
        A: (..., m, n).
        rcond: the old spelling of rtol.
        hermitian: use eigenvalues, of Hermitian matrices.
        atol: absolute tolerance; None is 0.
        rtol: relative tolerance; None is the dtype's epsilon times the larger size.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.pinv(rl.tensor([[2.0, 0.0], [0.0, 0.0]]), rtol=1e-3)
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    need_matrices("linalg.pinv", A=A)
    _need_floats("linalg.pinv", A)
    for name, t in (("atol", atol), ("rtol", rtol), ("rcond", rcond)):
        if isinstance(t, _C.Tensor) and t.requires_grad and _C.is_grad_enabled():
            raise RuntimeError(
                f"linalg.pinv: there is no gradient with respect to {name}; detach() it"
            )
    shapes = [t.shape for t in (atol, rtol, rcond) if isinstance(t, _C.Tensor)]
    if any(s != A.shape[:-2] for s in shapes):  # tolerances may broadcast against the batch
        batch = A.shape[:-2]
        for shape in shapes:
            batch = broadcast_shapes(batch, shape)
        A = A.expand(*batch, *A.shape[-2:])
    atol, rtol = _tolerances(A, atol, rcond if rtol is None else rtol, real_dtype(A))
    inverse, info = _C._pinv(A, atol, rtol, hermitian)
    check_info(info, "linalg.pinv", NOT_CONVERGED)
    return write_out("linalg.pinv", inverse, out)


@autocast_policy(cpu="float32")
def pinverse(input: Tensor, rcond: float | Tensor | None = 1e-15) -> Tensor:
    """linalg.pinv by its old name."""
    return pinv(input, rcond)


def _need_floats(op, A):
    if not (A.is_floating_point() or A.is_complex()):
        raise _C.DTypeError(f"{op}: needs floating or complex numbers, got {A.dtype}")


@autocast_policy(cpu="float32")
def lstsq(
    A: Tensor, B: Tensor, rcond: float | Tensor | None = None, *, driver: str | None = None,
    out: Sequence[Tensor] | None = None,
) -> return_types.linalg_lstsq:  # fmt: skip
    """X for which A X is nearest to B in the sense of least squares.

    Arguments:
        A: (..., m, n).
        B: (..., m, k) or (..., m).
        rcond: singular values below this part of the largest count as zero; None is the dtype's
            epsilon times the larger size.
        driver: 'gels' (A has full rank), 'gelsy', 'gelsd' or 'gelss'.
        out: tensors to write the four results to.

    Returns: (solution, residuals, rank, singular_values): the last three as far as the driver has
        them.

    Example:
        >>> A = rl.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> rl.linalg.lstsq(A, rl.tensor([[1.0], [3.0], [5.0]]),
        ...     driver="gelsd").solution.round(decimals=3)
        tensor([[1.],
                [2.]])
    """
    need_matrices("linalg.lstsq", A=A)
    if B.ndim < 1:
        raise _C.ShapeError("linalg.lstsq: B must have at least 1 dimension, got a number")
    if driver is None:  # of full rank is all that a GPU takes
        driver = "gels" if A.is_cuda else "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"linalg.lstsq: driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}"
        )
    vector = is_vector_rhs(A, B)
    if vector:
        B = B.unsqueeze(-1)
    A, B = same_batch("linalg.lstsq", A, B)
    rows, cols = A.shape[-2:]
    if rcond is None:
        rcond = _C.finfo(A.dtype).eps * max(rows, cols)
    plain_A, plain_B = A.detach(), B.detach()
    X, rank, singular, info = _C._lstsq(plain_A, plain_B, float(rcond), driver)
    check_info(info, "linalg.lstsq",
                          "the matrix does not have full rank (#): use driver='gelsd'"
                          if driver == "gels" else NOT_CONVERGED)  # fmt: skip
    residuals = A.new_empty(0, dtype=real_dtype(A))
    full_rank = driver == "gels" or A.is_meta or bool((rank == cols).all())
    if rows > cols and driver != "gelsy" and full_rank:
        residuals = X[..., cols:, :].abs().square().sum(-2)
    X = X[..., :cols, :]
    if tracked(A, B):  # PyTorch's way: the gradient is that of the pseudo-inverse
        X = pinv(A, rcond) @ B
        if residuals.numel():
            residuals = (A @ X - B).abs().square().sum(-2)
        else:
            residuals = residuals + (A.reshape(-1)[:0] + B.reshape(-1)[:0]).abs()
    if vector:
        X = X.squeeze(-1)
    if driver == "gels":
        rank = _C.empty(0, dtype=_C.int64, device=A.device)
    if driver in ("gels", "gelsy"):
        singular = A.new_empty(0, dtype=real_dtype(A))
    return with_out("linalg.lstsq", Lstsq((X, residuals, rank, singular)), out)


@autocast_policy(cpu="float32")
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A as a map from its last dims to its first `ind` ones.

    Arguments:
        A: a tensor whose first ind sizes have the same product as the others.
        ind: how many.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.tensorinv(rl.eye(4).reshape(4, 2, 2), ind=1).shape
        rushlight.Size([2, 2, 4])
    """
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: ind must be positive, got {ind}")
    first, last = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(f"linalg.tensorinv: the first {ind} sizes and the others must have the "
                           f"same product, got shape {list(A.shape)}")  # fmt: skip
    inverse = inv(A.reshape(math.prod(first), math.prod(last)))
    return write_out("linalg.tensorinv", inverse.reshape(*last, *first), out)


@autocast_policy(cpu="float32")
def tensorsolve(
    A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B, after the dims of A named were moved to its end.

    Arguments:
        A: a tensor whose sizes behind those of B have the same product as B.
        B: the right side.
        dims: dims of A that are moved to the end before.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.tensorsolve(rl.eye(4).reshape(2, 2, 4), rl.ones(2, 2), dims=None)
        tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    rest = A.shape[B.ndim :]
    if math.prod(rest) != math.prod(A.shape[: B.ndim]) or B.numel() != math.prod(rest):
        raise RuntimeError(f"linalg.tensorsolve: A of shape {list(A.shape)} does not map to B of "
                           f"shape {list(B.shape)}: both sides need equal products")  # fmt: skip
    X = solve(A.reshape(-1, math.prod(rest)), B.reshape(-1))
    return write_out("linalg.tensorsolve", X.reshape(rest), out)
