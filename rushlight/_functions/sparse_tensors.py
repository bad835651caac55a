"""Functions that make sparse tensors; what they do stands in rushlight/sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight._C import Tensor

if TYPE_CHECKING:
    from rushlight.sparse import SparseTensor

__all__ = [
    "_sparse_coo_tensor_unsafe",
    "hspmm",
    "smm",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sspaddmm",
]


def sparse_coo_tensor(
    indices: Any, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A tensor of layout sparse_coo: values at indices, of which there is one row per sparse dim.

    Values at the same index add up. With a size alone, an empty tensor."""
    from rushlight.sparse import _create

    return _create.sparse_coo_tensor(
        indices, values, size, dtype=dtype, device=device, pin_memory=pin_memory,
        requires_grad=requires_grad, check_invariants=check_invariants, is_coalesced=is_coalesced,
    )  # fmt: skip


def _sparse_coo_tensor_unsafe(*args: Any, **kwargs: Any) -> SparseTensor:
    """sparse_coo_tensor; here it checks its indices all the same."""
    return sparse_coo_tensor(*args, **kwargs)


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A tensor of layout sparse_csr, sparse_csc, sparse_bsr or sparse_bsc."""
    from rushlight.sparse import _create

    return _create.sparse_compressed_tensor(
        compressed_indices, plain_indices, values, size, dtype=dtype, layout=layout, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A matrix in rows: values, their columns, and where each row begins and ends among them."""
    from rushlight.sparse import _create

    return _create.sparse_csr_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, device=device, pin_memory=pin_memory,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A matrix in columns: values, their rows, and where each column begins and ends among them."""
    from rushlight.sparse import _create

    return _create.sparse_csc_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, device=device, pin_memory=pin_memory,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A matrix in rows of blocks: values are blocks of two dims."""
    from rushlight.sparse import _create

    return _create.sparse_bsr_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, device=device, pin_memory=pin_memory,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A matrix in columns of blocks: values are blocks of two dims."""
    from rushlight.sparse import _create

    return _create.sparse_bsc_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, device=device, pin_memory=pin_memory,
        requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


def smm(input: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse one."""
    from rushlight.sparse import _products

    return _products.smm(input, mat)


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """A sparse times a dense matrix: the rows that are not empty, as a sparse tensor."""
    from rushlight.sparse import _convert, _products

    return _convert.from_dense(_products.mm(mat1, mat2, "hspmm"), 1)


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), where input and mat1 are sparse, as a sparse one."""
    from rushlight.sparse import _products

    return _products.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)
