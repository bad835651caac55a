"""Methods of Tensor that are about sparse layouts."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor
from rushlight.sparse import _convert
from rushlight.sparse._convert import sparse_mask as sparse_mask
from rushlight.sparse._convert import to_sparse as to_sparse
from rushlight.sparse._products import smm as smm
from rushlight.sparse._products import sspaddmm as sspaddmm
from rushlight.sparse._tensor import (
    BLOCK_LAYOUTS,
    BSC,
    BSR,
    COO,
    CSC,
    CSR,
    NAMES,
    ROW_LAYOUTS,
    SparseTensor,
)


def _layout_name(x):
    return NAMES[x._layout] if isinstance(x, SparseTensor) else "strided"


def _coo(name: str, x: Any) -> SparseTensor:
    if not isinstance(x, SparseTensor) or x._layout is not COO:
        raise RuntimeError(f"{name}: expected layout sparse_coo, got {_layout_name(x)}")
    return x


def coalesce(self: Tensor) -> SparseTensor:
    """The tensor with its indices in order, and values of the same index added."""
    return _convert.coalesce(_coo("coalesce", self))


def is_coalesced(self: Tensor) -> bool:
    """Whether the indices are in order and each there once, as far as is known."""
    return _coo("is_coalesced", self)._sorted


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Says whether the indices are in order and each there once."""
    _coo("_coalesced_", self)._sorted = bool(coalesced)
    return self


def indices(self: Tensor) -> Tensor:
    """The indices of a coalesced tensor: one row per sparse dim."""
    if not _coo("indices", self)._sorted:
        raise RuntimeError("indices: the tensor is not coalesced; call coalesce() first")
    return self._parts[0]  # type: ignore[attr-defined]


def values(self: Tensor) -> Tensor:
    """The values; of a sparse_coo tensor once it is coalesced."""
    if not isinstance(self, SparseTensor):
        raise RuntimeError("values: expected a sparse tensor, got layout strided")
    if self._layout is COO and not self._sorted:
        raise RuntimeError("values: the tensor is not coalesced; call coalesce() first")
    return self._vals.view_as(self._vals) if self._vals.requires_grad else self._vals


def _indices(self: Tensor) -> Tensor:
    """The indices as they are."""
    return _coo("_indices", self)._parts[0]


def _values(self: Tensor) -> Tensor:
    """The values as they are, cut off from the graph."""
    return _coo("_values", self)._vals.detach()


def _nnz(self: Tensor) -> int:
    """How many elements (or blocks) the tensor holds."""
    if not isinstance(self, SparseTensor):
        raise RuntimeError("_nnz: expected a sparse tensor, got layout strided")
    return self._vals.shape[0]


def sparse_dim(self: Tensor) -> int:
    """How many dims have indices."""
    if not isinstance(self, SparseTensor):
        return 0
    return self._parts[0].shape[0] if self._layout is COO else 2


def dense_dim(self: Tensor) -> int:
    """How many dims each value has."""
    if not isinstance(self, SparseTensor):
        return self.dim()
    return self._vals.dim() - (3 if self._layout in BLOCK_LAYOUTS else 1)


def _part(name, layouts, k, doc):
    def part(self: Tensor) -> Tensor:
        if not isinstance(self, SparseTensor) or self._layout not in layouts:
            wanted = " or ".join(NAMES[layout] for layout in layouts)
            raise RuntimeError(f"{name}: expected layout {wanted}, got {_layout_name(self)}")
        return self._parts[k]

    part.__name__ = part.__qualname__ = name
    part.__doc__ = doc
    return part


_COLUMN_LAYOUTS = tuple(x for x in (CSC, BSC) if x not in ROW_LAYOUTS)
crow_indices = _part("crow_indices", ROW_LAYOUTS, 0, "Where each row begins and ends.")
col_indices = _part("col_indices", ROW_LAYOUTS, 1, "The column of each value.")
ccol_indices = _part("ccol_indices", _COLUMN_LAYOUTS, 0, "Where each column begins and ends.")
row_indices = _part("row_indices", _COLUMN_LAYOUTS, 1, "The row of each value.")


def to_sparse_coo(self: Tensor) -> SparseTensor:
    """The tensor in layout sparse_coo."""
    return to_sparse(self)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """The matrix in layout sparse_csr."""
    return to_sparse(self, layout=CSR, dense_dim=dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """The matrix in layout sparse_csc."""
    return to_sparse(self, layout=CSC, dense_dim=dense_dim)


def to_sparse_bsr(
    self: Tensor, blocksize: Any = None, dense_dim: int | None = None
) -> SparseTensor:
    """The matrix in layout sparse_bsr."""
    return to_sparse(self, layout=BSR, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(
    self: Tensor, blocksize: Any = None, dense_dim: int | None = None
) -> SparseTensor:
    """The matrix in layout sparse_bsc."""
    return to_sparse(self, layout=BSC, blocksize=blocksize, dense_dim=dense_dim)


def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Other sizes, in place; elements stay where they are."""
    return _convert.resize(_coo("sparse_resize_", self), size, sparse_dim, dense_dim)


def sparse_resize_and_clear_(
    self: Tensor, size: Any, sparse_dim: int, dense_dim: int
) -> SparseTensor:
    """Other sizes, in place, and no elements."""
    return _convert.resize(
        _coo("sparse_resize_and_clear_", self), size, sparse_dim, dense_dim, True
    )


def resize_as_sparse_(self: Tensor, other: Tensor) -> SparseTensor:
    """The sizes of another sparse tensor, in place."""
    x = _coo("resize_as_sparse_", self)
    return _convert.resize(x, other.shape, other.sparse_dim(), other.dense_dim())
