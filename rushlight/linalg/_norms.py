"""Norms, condition and rank."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out
from rushlight.linalg._solve import _tolerances, real_dtype
from rushlight.types import _dtype


def vector_norm(
    x: Tensor,
    ord: float | str | None = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of order `ord` of all elements or along dims.

    Arguments:
        x: any tensor.
        ord: 2, 1, 0 (how many are not zero), inf, -inf or any number.
        dim: the dim or dims that hold vectors; None is all.
        keepdim: keep each reduced dim with size 1.
        dtype: dtype to convert to before.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.vector_norm(rl.tensor([[3.0, -4.0], [0.0, 5.0]]), ord=float("inf"), dim=1)
        tensor([4., 5.])
    """
    if not (x.is_floating_point() or x.is_complex()):
        raise _C.DTypeError(f"linalg.vector_norm: needs floating or complex numbers, got {x.dtype}")
    return _C._vector_norm(x, ord, dim, keepdim, dtype=dtype, out=out)  # type: ignore[arg-type]


@autocast_policy(cuda="float32")
def matrix_norm(
    A: Tensor,
    ord: float | str | None = "fro",
    dim: int | Sequence[int] | None = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of matrices: 'fro', 'nuc' (the sum of the singular values), 2 and -2 (the extreme
    singular value), 1 and -1 (the extreme sum of a column), inf and -inf (of a row).

    Arguments:
        A: (..., m, n).
        ord: 'fro', 'nuc', 2, -2, 1, -1 (sums of columns), inf or -inf (sums of rows).
        dim: the two dims of the matrices.
        keepdim: keep each reduced dim with size 1.
        dtype: dtype to convert to before.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.matrix_norm(rl.tensor([[3.0, 0.0], [4.0, 5.0]]), ord=1)
        tensor(7.)
    """
    name = "linalg.matrix_norm"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: needs at least 2 dims, got shape {list(A.shape)}")
    if not (A.is_floating_point() or A.is_complex()):
        raise _C.DTypeError(f"{name}: needs floating or complex numbers, got {A.dtype}")
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise RuntimeError(f"{name}: ord must be 'fro', 'nuc' or a number, got {ord!r}")
    if not isinstance(dim, tuple | list) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must name two dims, got {dim!r}")
    if dtype is not None:
        A = A.to(dtype)
    for d in dim:
        if not -A.ndim <= d < A.ndim:
            raise IndexError(f"{name}: dim {d} is out of range (from {-A.ndim} to {A.ndim - 1})")
    rows, columns = (d % A.ndim for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: the two dims must differ, got {tuple(dim)}")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, out=out)
    if ord in ("nuc", 2, -2):
        from rushlight.linalg._spectral import svdvals

        values = svdvals(A.movedim((rows, columns), (-2, -1)))
        if ord == "nuc" or (ord == 2 and values.shape[-1] == 0):
            result = values.sum(-1)
        else:
            result = values.amax(-1) if ord == 2 else values.amin(-1)
        if keepdim:
            for d in sorted((rows, columns)):
                result = result.unsqueeze(d)
    elif ord in (1, -1, inf, -inf):
        inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(inner, keepdim=True)
        if ord > 0 and A.shape[outer] == 0:
            result = sums.sum((outer,), keepdim=True)
        elif ord > 0:
            result = sums.amax((outer,), keepdim=True)
        else:
            result = sums.amin((outer,), keepdim=True)
        if not keepdim:
            result = result.squeeze((rows, columns))
    else:
        raise RuntimeError(f"{name}: ord must be 'fro', 'nuc', 1, 2, inf or one of these with a "
                           f"minus, got {ord!r}")  # fmt: skip
    return write_out(name, result, out)


def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
) -> Tensor:
    """A matrix norm for a matrix or two dims with an order, else a vector norm.

    Arguments:
        A: any tensor.
        ord: None is the root of the sum of squares; else as for vector_norm or matrix_norm.
        dim: one dim for vectors, two for matrices; None is all.
        keepdim: keep each reduced dim with size 1.
        out: a tensor to write the result into.
        dtype: dtype to convert to before.

    Example:
        >>> x = rl.tensor([[3.0, 4.0], [0.0, 5.0]])
        >>> rl.linalg.norm(x), rl.linalg.norm(x, dim=1), rl.linalg.norm(x, ord=1, dim=1)
        (tensor(7.0711), tensor([5., 5.]), tensor([7., 5.]))
    """
    if isinstance(dim, tuple | list) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: dim must name one or two dims, got {dim!r}")
    if ord is not None and dim is None and A.ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: an order without dim needs a vector or a matrix, got "
                           f"shape {list(A.shape)}")  # fmt: skip
    if isinstance(ord, str) or (ord is not None and (
        (dim is None and A.ndim == 2) or (isinstance(dim, tuple | list) and len(dim) == 2)
    )):  # fmt: skip
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


@autocast_policy(cpu="float32")
def cond(A: Tensor, p: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """How much relative errors may grow by solving with A: norm(A) norm(A^-1).

    Arguments:
        A: (..., m, n).
        p: the norm: None or 2, -2, 'fro', 'nuc', 1, -1, inf or -inf.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.cond(rl.tensor([[1.0, 0.0], [0.0, 0.01]]), p=1)
        tensor(100.)
    """
    from rushlight.linalg._solve import inv_ex
    from rushlight.linalg._spectral import svdvals

    if A.ndim < 2:
        raise RuntimeError(f"linalg.cond: needs at least 2 dims, got shape {list(A.shape)}")
    if p in (None, 2, -2):
        values = svdvals(A)
        if values.shape[-1] == 0:
            return write_out("linalg.cond", values.new_zeros(A.shape[:-2]), out)
        ends = values[..., 0], values[..., -1]
        result = ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
        return write_out("linalg.cond", result, out)
    if A.numel() == 0 and not isinstance(p, str):
        return write_out("linalg.cond", A.new_zeros(A.shape[:-2], dtype=real_dtype(A)), out)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"linalg.cond: p={p!r} needs square matrices, got {list(A.shape)}")
    inverse, info = inv_ex(A)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    result = _C.where((info != 0) | result.isnan(), inf, result)
    return write_out("linalg.cond", result.to(real_dtype(A)), out)


@autocast_policy(cpu="float32")
def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The number of singular values above max(atol, rtol times the largest).

    Arguments:
        A: (..., m, n).
        tol: the old spelling of atol.
        hermitian: use eigenvalues, of Hermitian matrices.
        atol: absolute tolerance; None is 0.
        rtol: relative tolerance; None is the dtype's epsilon times the larger size.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.matrix_rank(rl.tensor([[1.0, 2.0], [2.0, 4.0]]), rtol=1e-3)
        tensor(1)
    """
    from rushlight.linalg._spectral import eigvalsh, svdvals

    if A.ndim < 2:
        raise _C.ShapeError(f"linalg.matrix_rank: needs at least 2 dims, got {list(A.shape)}")
    if tol is not None:
        atol, rtol = tol, 0.0
    A = A.detach()
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    if values.shape[-1] == 0:
        return write_out(
            "linalg.matrix_rank",
            _C.zeros(A.shape[:-2], dtype=_C.int64, device=A.device),
            out,
        )
    shapes = [t.shape for t in (atol, rtol) if isinstance(t, _C.Tensor)]
    if any(s != A.shape[:-2] for s in shapes):  # tolerances may broadcast against the batch
        from rushlight.functional import broadcast_shapes

        batch = A.shape[:-2]
        for shape in shapes:
            batch = broadcast_shapes(batch, shape)
        values = values.expand(*batch, values.shape[-1])
        A = A.expand(*batch, *A.shape[-2:])
    atol, rtol = _tolerances(A, atol, rtol, values.dtype)
    limit = _C.maximum(atol, rtol * values.amax(-1))
    rank = (values > limit.unsqueeze(-1)).sum(-1)
    return write_out("linalg.matrix_rank", rank, out)
