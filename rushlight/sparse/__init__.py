"""Sparse tensors: products, sums and softmax of them. docs/sparse.md is the guide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._C import Tensor
from rushlight._names.missing import submodule_or_raise
from rushlight.sparse import _products, _reduce
from rushlight.sparse._create import check_sparse_tensor_invariants
from rushlight.sparse._diagonals import spdiags
from rushlight.sparse._products import sampled_addmm, spsolve
from rushlight.sparse._reduce import log_softmax, softmax
from rushlight.sparse._tensor import SparseTensor
from rushlight.sparse._types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "SparseTensor", "addmm",
    "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm",
    "softmax", "spdiags", "spsolve", "sum",
]  # fmt: skip


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of two matrices, of which one or both may be sparse.

    reduce: "sum" adds up the products of a row, as a product of matrices does; "mean", "amax" and
    "amin" do something else with them, for a CSR matrix and a dense one.
    """
    if reduce == "sum":
        if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
            return mat1.mm(mat2)
        return _products.mm(mat1, mat2, name="sparse.mm")
    from rushlight.sparse._reduced_products import reduced_mm

    return reduced_mm(mat1, mat2, reduce)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0,
          alpha: float = 1.0) -> Tensor:  # fmt: skip
    """beta * mat + alpha * (mat1 @ mat2)."""
    if not any(isinstance(m, SparseTensor) for m in (mat, mat1, mat2)):
        return mat.addmm(mat1, mat2, beta=beta, alpha=alpha)
    return _products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum over some dims, or all; sparse as long as a sparse dim is left."""
    return _reduce.sum(input, dim, dtype=dtype, widens=False)


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """gradcheck as it is: sparse inputs are checked through their values."""
    return gradcheck


def __getattr__(name: str) -> Any:
    return submodule_or_raise(__name__, name)
