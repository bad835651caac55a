"""Sparse matrices of their diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.sparse._convert import coalesce, numbers, to_sparse
from rushlight.sparse._tensor import COO, CSC, CSR, SparseTensor, make


def spdiags(
    diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None
) -> SparseTensor:
    """A sparse matrix whose diagonals are the rows of a matrix.

    Element k of a row stands in column k, on the diagonal that its offset names; what would lie
    outside of the shape is left out.
    """
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    where = offsets.reshape(-1)
    if rows.dim() != 2 or where.shape[0] != rows.shape[0]:
        raise ValueError(
            f"spdiags: one offset per diagonal is needed, got {where.shape[0]} offsets "
            f"and diagonals of shape {list(diagonals.shape)}"
        )
    if where.dtype != _C.int64:
        raise ValueError(f"spdiags: offsets must be int64, got {where.dtype}")
    if where.unique().shape[0] != where.shape[0]:
        raise ValueError("spdiags: an offset appears twice")
    if len(shape) != 2:
        raise ValueError(f"spdiags: shape must have two sizes, got {list(shape)}")
    if layout not in (None, COO, CSR, CSC):
        raise ValueError(
            f"spdiags: layout must be sparse_coo, sparse_csr or sparse_csc, got {layout}"
        )
    columns = numbers(rows.shape[1], where).expand(rows.shape)
    at = columns - where[:, None]
    inside = ((at >= 0) & (at < shape[0]) & (columns < shape[1])).reshape(-1).nonzero().squeeze(1)
    indices = _C.stack((at.reshape(-1), columns.reshape(-1))).index_select(1, inside)
    values = rows.reshape(-1).index_select(0, inside)
    found = make(COO, (indices,), values, tuple(shape))
    return found if layout in (None, COO) else to_sparse(coalesce(found), layout=layout)
