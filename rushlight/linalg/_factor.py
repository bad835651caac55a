"""Factors of matrices: Cholesky, LU, QR, LDL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out, write_outs
from rushlight.linalg._results import (
    NOT_POSITIVE,
    SINGULAR,
    check_info,
    named,
    need_matrices,
    same_batch,
    tracked,
    with_out,
)

if TYPE_CHECKING:
    from rushlight import return_types

CholeskyEx = named("linalg_cholesky_ex", ("L", "info"))
LU = named("linalg_lu", ("P", "L", "U"))
LUFactor = named("linalg_lu_factor", ("LU", "pivots"))
LUFactorEx = named("linalg_lu_factor_ex", ("LU", "pivots", "info"))
LUUnpack = named("lu_unpack", ("P", "L", "U"))
QR = named("linalg_qr", ("Q", "R"))
LDLFactor = named("linalg_ldl_factor", ("LD", "pivots"))
LDLFactorEx = named("linalg_ldl_factor_ex", ("LD", "pivots", "info"))
Geqrf = named("geqrf", ("a", "tau"))


def _factored(A, upper):
    if not upper:
        return _C._cholesky_ex(A)
    need_matrices("linalg.cholesky", A=A)
    L, info = _C._cholesky_ex(A.mH)  # whose lower triangle is A's upper one
    return L.mH, info


@autocast_policy(cpu="float32")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False,
                out: Sequence[Tensor] | None = None
                ) -> return_types.linalg_cholesky_ex:  # fmt: skip
    """The factor, and for each matrix 0 or the order of the first minor that is not positive.

    Does not wait for a GPU to say that all went well, unlike cholesky.

    Arguments:
        A: (..., n, n).
        upper: return U = L^H instead.
        check_errors: raise as cholesky does.
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.linalg.cholesky_ex(rl.tensor([[1.0, 2.0], [2.0, 1.0]]), check_errors=False).info
        tensor(2, dtype=rushlight.int32)
    """
    L, info = _factored(A, upper)
    if check_errors:
        check_info(info, "linalg.cholesky_ex", NOT_POSITIVE)
    return with_out("linalg.cholesky_ex", CholeskyEx((L, info)), out)


@autocast_policy(cpu="float32")
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """L, lower triangular, with A = L L^H, of Hermitian positive definite matrices.

    Arguments:
        A: (..., n, n), symmetric or Hermitian and positive definite; only one triangle is read.
        upper: return U = L^H instead.
        out: a tensor to write the result into.

    Raises: LinAlgError if a matrix is not positive definite.

    Example:
        >>> A = rl.tensor([[4.0, 2.0], [2.0, 5.0]])
        >>> L = rl.linalg.cholesky(A)
        >>> L
        tensor([[2., 0.],
                [1., 2.]])
        >>> rl.linalg.cholesky(A, upper=True)
        tensor([[2., 1.],
                [0., 2.]])
    """
    L, info = _factored(A, upper)
    check_info(info, "linalg.cholesky", NOT_POSITIVE)
    return write_out("linalg.cholesky", L, out)


@autocast_policy(cpu="float32")
def cholesky_solve(
    input: Tensor, input2: Tensor, upper: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """X with A X = input, where input2 is the factor of A.

    Arguments:
        input: (..., n, k), the right side.
        input2: the triangular factor of A.
        upper: it is the upper one.
        out: a tensor to write the result into.

    Example:
        >>> rl.cholesky_solve(rl.ones(2, 1), rl.tensor([[2.0, 0.0], [0.0, 1.0]]), upper=False)
        tensor([[0.2500],
                [1.0000]])
    """
    need_matrices("cholesky_solve", input=input, input2=input2)
    L, B = same_batch("cholesky_solve", input2, input)
    lower = L.mH if upper else L
    middle = _C._solve_triangular(lower, B, False, False)
    return write_out("cholesky_solve", _C._solve_triangular(lower.mH, middle, True, False), out)


@autocast_policy(cpu="float32")
def cholesky_inverse(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the matrix whose factor is input.

    Arguments:
        input: the triangular factor of A, as linalg.cholesky gives it.
        upper: it is the upper one.
        out: a tensor to write the result into.

    Example:
        >>> L = rl.tensor([[2.0, 0.0], [0.0, 4.0]])
        >>> rl.cholesky_inverse(L, upper=False)
        tensor([[0.2500, 0.0000],
                [0.0000, 0.0625]])
    """
    need_matrices("cholesky_inverse", input=input)
    zero = (input.detach().diagonal(0, -2, -1) == 0).to(_C.int32)
    place = zero.argmax(-1).to(_C.int32) + 1 if zero.shape[-1] else zero.sum(-1)
    check_info(
        place * zero.any(-1),
        "cholesky_inverse",
        "the matrix is singular: element # on the diagonal of its factor is zero",
    )
    one = _C.eye(input.shape[-1], dtype=input.dtype, device=input.device)
    return write_out("cholesky_inverse", cholesky_solve(one, input, upper), out)


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False,
                 out: Sequence[Tensor] | None = None
                 ) -> return_types.linalg_lu_factor_ex:  # fmt: skip
    """L and U in one matrix, the exchanges of rows, and where U has its first zero, or 0.

    Arguments:
        A: (..., m, n).
        pivot: exchange rows.
        check_errors: raise where U has a zero on its diagonal.
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.linalg.lu_factor_ex(rl.eye(2), pivot=True).info
        tensor(0, dtype=rushlight.int32)
    """
    result = LUFactorEx(_C._lu_factor(A, pivot))
    if check_errors:
        check_info(result.info, "linalg.lu_factor_ex", SINGULAR)
    return with_out("linalg.lu_factor_ex", result, out)


def lu_factor(
    A: Tensor, *, pivot: bool = True, out: Sequence[Tensor] | None = None
) -> return_types.linalg_lu_factor:
    """L and U of P A = L U in one matrix, and the exchanges of rows.

    Arguments:
        A: (..., m, n).
        pivot: exchange rows.
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.linalg.lu_factor(rl.tensor([[4.0, 3.0], [2.0, 1.0]]), pivot=True)
        rushlight.return_types.linalg_lu_factor(
        LU=tensor([[ 4.0000,  3.0000],
                [ 0.5000, -0.5000]]),
        pivots=tensor([1, 2], dtype=rushlight.int32))
    """
    factors, pivots, info = _C._lu_factor(A, pivot)
    check_info(info, "linalg.lu_factor", SINGULAR)
    return with_out("linalg.lu_factor", LUFactor((factors, pivots)), out)


def _triangles(factors):
    rows, cols = factors.shape[-2:]
    k = min(rows, cols)
    one = _C.eye(rows, k, dtype=factors.dtype, device=factors.device)
    return factors[..., :, :k].tril(-1) + one, factors[..., :k, :].triu()


def _permutation(factors, pivots):
    rows = factors.shape[-2]
    order = _C._pivots_to_permutation(pivots, rows)
    zero = _C.zeros(*order.shape[:-1], rows, rows, dtype=factors.dtype, device=factors.device)
    return zero.scatter(-2, order.unsqueeze(-2), 1.0)


def lu(
    A: Tensor, *, pivot: bool = True, out: Sequence[Tensor] | None = None
) -> return_types.linalg_lu:
    """P, L and U with A = P L U; without pivots P is empty.

    Arguments:
        A: (..., m, n).
        pivot: exchange rows, which keeps errors small.
        out: tensors to write the results into, in their order.

    Example:
        >>> P, L, U = rl.linalg.lu(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), pivot=True)
        >>> L, U
        (tensor([[1.0000, 0.0000],
                [0.3333, 1.0000]]), tensor([[3.0000, 4.0000],
                [0.0000, 0.6667]]))
    """
    factors, pivots, _ = _C._lu_factor(A, pivot)
    P = _permutation(factors, pivots) if pivot else factors.new_empty(0)
    return with_out("linalg.lu", LU((P, *_triangles(factors))), out)


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True,
              unpack_pivots: bool = True, *, out: Sequence[Tensor] | None = None
              ) -> return_types.lu_unpack:  # fmt: skip
    """P, L and U from what lu_factor returns; those not asked for are empty.

    Arguments:
        LU_data, LU_pivots: what linalg.lu_factor gave.
        unpack_data: make L and U.
        unpack_pivots: make P.
        out: tensors to write the results into, in their order.

    Example:
        >>> factors = rl.linalg.lu_factor(rl.tensor([[4.0, 3.0], [2.0, 1.0]]))
        >>> rl.lu_unpack(*factors, unpack_pivots=False).U
        tensor([[ 4.0000,  3.0000],
                [ 0.0000, -0.5000]])
    """
    need_matrices("lu_unpack", LU_data=LU_data)
    empty = LU_data.new_empty(0)
    if LU_pivots.ndim + 1 != LU_data.ndim:
        LU_pivots = LU_pivots.expand(*LU_data.shape[:-2], LU_pivots.shape[-1])
    P = _permutation(LU_data, LU_pivots) if unpack_pivots else empty
    L, U = _triangles(LU_data) if unpack_data else (empty, empty)
    return with_out("lu_unpack", LUUnpack((P, L, U)), out)


def old_lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """lu_factor_ex by its old name: (LU, pivots), or with get_infos (LU, pivots, infos)."""
    found = lu_factor_ex(A, pivot=pivot)
    found = tuple(found) if get_infos else tuple(found[:2])
    if not get_infos:
        check_info(_C._lu_factor(A.detach(), pivot)[2], "lu", SINGULAR)
    return write_outs("lu", found, out)


@autocast_policy(cpu="float32")
def qr(
    A: Tensor, mode: str = "reduced", *, out: Sequence[Tensor] | None = None
) -> return_types.linalg_qr:
    """Q with orthonormal columns and R upper triangular with A = Q R.

    Arguments:
        A: (..., m, n).
        mode: 'reduced', 'complete' (Q is square) or 'r' (Q is empty).
        out: tensors to write the results into, in their order.

    Example:
        >>> Q, R = rl.linalg.qr(rl.tensor([[3.0, 1.0], [4.0, 2.0]]), mode="complete")
        >>> rl.allclose(Q @ R, rl.tensor([[3.0, 1.0], [4.0, 2.0]]), atol=1e-6)
        True
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    if mode == "r":
        result = QR((A.new_empty(0), _C._qr_r(A)))
    else:
        result = QR(_C._qr(A, mode == "complete"))
    return with_out("linalg.qr", result, out)


@autocast_policy(cpu="float32")
def old_qr(input, some=True, *, out=None):
    """linalg.qr by its old name."""
    return qr(input, "reduced" if some else "complete", out=out)


@autocast_policy(cpu="float32")
def geqrf(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.geqrf:
    """QR as LAPACK keeps it: R, below it the reflections, and their factors tau.

    Arguments:
        input: (..., m, n).
        out: tensors to write the results into, in their order.

    Example:
        >>> a, tau = rl.geqrf(rl.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> a.shape, tau.shape
        (rushlight.Size([2, 2]), rushlight.Size([2]))
    """
    return with_out("geqrf", Geqrf(_C._geqrf(input)), out)


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False,
                  out: Sequence[Tensor] | None = None
                  ) -> return_types.linalg_ldl_factor_ex:  # fmt: skip
    """The factors of symmetric (or Hermitian) matrices, and what went wrong, or 0.

    Arguments:
        A: (..., n, n).
        hermitian: of complex matrices: Hermitian rather than symmetric.
        check_errors: raise where the factor does not exist.
        out: tensors to write the results into, in their order.

    Example:
        >>> rl.linalg.ldl_factor_ex(rl.eye(2), hermitian=True).info
        tensor(0, dtype=rushlight.int32)
    """
    result = LDLFactorEx(_C._ldl_factor(A, hermitian))
    if check_errors:
        _check_ldl(result.info, "linalg.ldl_factor_ex")
    return with_out("linalg.ldl_factor_ex", result, out)


def ldl_factor(
    A: Tensor, *, hermitian: bool = False, out: Sequence[Tensor] | None = None
) -> return_types.linalg_ldl_factor:
    """The factors of symmetric (or Hermitian) matrices, as LAPACK keeps them.

    Arguments:
        A: (..., n, n).
        hermitian: of complex matrices: Hermitian rather than symmetric.
        out: tensors to write the results into, in their order.

    Example:
        >>> LD, pivots = rl.linalg.ldl_factor(rl.tensor([[2.0, 1.0], [1.0, 3.0]]), hermitian=True)
        >>> LD.diagonal()
        tensor([2.0000, 2.5000])
    """
    factors, pivots, info = _C._ldl_factor(A, hermitian)
    _check_ldl(info, "linalg.ldl_factor")
    return with_out("linalg.ldl_factor", LDLFactor((factors, pivots)), out)


def _check_ldl(info, op):
    check_info(info, op, "the matrix is singular: element # of D is zero")


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B, A by its LDL factors.

    Arguments:
        LD, pivots: what ldl_factor gave.
        B: (..., n, k).
        hermitian: as for ldl_factor.
        out: a tensor to write the result into.

    Example:
        >>> factors = rl.linalg.ldl_factor(rl.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> rl.linalg.ldl_solve(*factors, rl.ones(2, 1), hermitian=False)
        tensor([[0.5000],
                [0.2500]])
    """
    need_matrices("linalg.ldl_solve", LD=LD, B=B)
    LD, B = same_batch("linalg.ldl_solve", LD, B)
    pivots = pivots.expand(*LD.shape[:-1])
    return write_out("linalg.ldl_solve", _C._ldl_solve(LD, pivots, B, hermitian), out)


@autocast_policy(cpu="float32")
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of reflections I - tau_i v_i v_i^H.

    v_i is zero above row i, one in it, and column i of A below it: the Q that a QR factorization
    keeps in that form.

    Arguments:
        A: (..., m, n), reflections below the diagonal, as geqrf leaves them.
        tau: (..., k), their factors.
        out: a tensor to write the result into.

    Example:
        >>> A = rl.tensor([[3.0, 1.0], [4.0, 2.0]])
        >>> Q = rl.linalg.householder_product(*rl.geqrf(A))
        >>> rl.allclose(Q.T @ Q, rl.eye(2), atol=1e-6)
        True
    """
    name = "linalg.householder_product"
    if A.dim() < 2 or A.shape[-2] < A.shape[-1]:
        raise RuntimeError(
            f"{name}: A must have at least as many rows as columns, got shape {list(A.shape)}"
        )
    if tau.dim() != A.dim() - 1 or tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError(
            f"{name}: tau must have the batch dims of A and one more, got {list(tau.shape)} for A "
            f"of shape {list(A.shape)}"
        )
    if tau.shape[-1] > A.shape[-1]:
        raise RuntimeError(
            f"{name}: tau must have at most as many elements as A has columns, got "
            f"{tau.shape[-1]} and {A.shape[-1]}"
        )
    if tau.dtype != A.dtype:
        raise RuntimeError(f"{name}: A and tau differ in dtype: {A.dtype} and {tau.dtype}")
    if not tracked(A, tau):
        return write_out(name, _C._orgqr(A, tau), out)
    rows, columns = A.shape[-2:]
    one = _C.eye(rows, dtype=A.dtype, device=A.device)[:, :columns]
    if tau.shape[-1] == 0:  # no reflection: the gradient is zero rather than cut off
        return write_out(name, A.clone().copy_(one), out)
    return write_out(name, _reflected(A, tau, one.expand(A.shape), False), out)


def _reflected(A, tau, other, adjoint):
    """Q other (or Q^H other), one reflection after the other."""
    rows, columns = A.shape[-2:]
    one = _C.eye(rows, columns, dtype=A.dtype, device=A.device)
    vectors, result = A.tril(-1) + one, other
    order = range(tau.shape[-1])
    for i in order if adjoint else reversed(order):
        v, factor = vectors[..., i : i + 1], tau[..., i, None, None]
        result = result - (factor.conj() if adjoint else factor) * v @ (v.mH @ result)
    return result.clone() if tau.shape[-1] == 0 else result


@autocast_policy(cpu="float32")
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The old name of linalg.householder_product."""
    return householder_product(input, input2, out=out)


@autocast_policy(cpu="float32")
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False,
          *, out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Q input3, Q^H input3, input3 Q or input3 Q^H, with the Q that geqrf keeps as reflections in
    input and their factors input2.

    Arguments:
        input, input2: what `geqrf` gave.
        input3: the matrix to multiply.
        left: Q is the left factor.
        transpose: take the adjoint of Q.
        out: a tensor to write the result into.

    Example:
        >>> A = rl.tensor([[3.0, 1.0], [4.0, 2.0]])
        >>> rl.ormqr(*rl.geqrf(A), A, transpose=True).abs().round(decimals=3)
        tensor([[5.0000, 2.2000],
                [0.0000, 0.4000]])
    """
    tau, other = input2, input3
    need_matrices("ormqr", input=input, other=other)
    side = other.shape[-2 if left else -1]
    if input.shape[-2] != side:
        raise RuntimeError(f"ormqr: input has {input.shape[-2]} rows, and other of shape "
                           f"{list(other.shape)} needs {side}")  # fmt: skip
    if tau.ndim < 1 or tau.shape[-1] != min(side, input.shape[-1]):
        raise RuntimeError(f"ormqr: tau must have {min(side, input.shape[-1])} elements, one for "
                           f"each reflection, got shape {list(tau.shape)}")  # fmt: skip
    if tau.shape[:-1] != input.shape[:-2] or other.shape[:-2] != input.shape[:-2]:
        raise RuntimeError(
            "ormqr: the batch dimensions differ: shapes are "
            f"{list(input.shape)}, {list(tau.shape)}, {list(other.shape)}"
        )
    if tau.dtype != input.dtype or other.dtype != input.dtype:
        raise RuntimeError(f"ormqr: the dtypes differ: {input.dtype}, {tau.dtype}, {other.dtype}")
    if not tracked(input, tau, other):
        return write_out("ormqr", _C._ormqr(input, tau, other, left, transpose), out)
    if left:
        result = _reflected(input, tau, other, transpose)
    else:  # other Q = (Q^H other^H)^H
        result = _reflected(input, tau, other.mH, not transpose).mH
    return write_out("ormqr", result, out)
