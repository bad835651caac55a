"""Products of a CSR matrix that take a mean or an extreme of each row instead of the sum."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.sparse._products import product, rows_of
from rushlight.sparse._tensor import CSR, SparseTensor

_REDUCES = "mean amax amin".split()


def reduced_mm(mat1: Any, mat2: Tensor, reduce: str) -> Tensor:
    """The mean, the largest or the smallest of the products of each row; 0 for an empty one."""
    if reduce not in _REDUCES:
        raise ValueError(
            f"sparse.mm: reduce must be 'sum', 'mean', 'amax' or 'amin', got {reduce!r}"
        )
    if not isinstance(mat1, SparseTensor) or mat1._layout is not CSR or (
        isinstance(mat2, SparseTensor) or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0]
    ):  # fmt: skip
        raise RuntimeError(f"sparse.mm: reduce={reduce!r} takes a CSR matrix and a dense one that "
                           "fits")  # fmt: skip
    rows = rows_of(mat1)
    counts = rows.crow.diff()
    if reduce == "mean":
        return product(mat1._vals, mat2, rows) / counts.clamp(min=1).to(mat2.dtype)[:, None]
    parts = mat2.index_select(0, rows.col) * mat1._vals[:, None]
    found = _C.zeros(mat1.shape[0], mat2.shape[1], dtype=parts.dtype, device=parts.device)
    return found.scatter_reduce(0, rows.rows[:, None].expand(parts.shape), parts, reduce,
                                include_self=False)  # fmt: skip
