"""Products of sparse matrices.

A sparse matrix times a dense one is a weighted sum of rows (csrc/ops/sparse). The gradient of the
dense one is such a product with the transposed matrix, whose indices are sorted once and kept; that
of the values is a product at their places only.
"""

from __future__ import annotations

import weakref
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import Function
from rushlight.sparse._convert import (
    add_up,
    bounds_of,
    coalesce,
    from_dense,
    groups_of,
    numbers,
    to_coo,
    to_dense,
    to_sparse,
)
from rushlight.sparse._create import check_bounds
from rushlight.sparse._tensor import BLOCK_LAYOUTS, COO, CSC, CSR, NAMES, SparseTensor, make

_KERNELS = (_C.float32, _C.float64, _C.float16, _C.bfloat16)


class Rows:
    """Where the elements of a matrix are, row by row: element k of row r has column col[k], and the
    value number order[k] (k itself where order is None), for k from crow[r] to crow[r + 1]."""

    __slots__ = (
        "__weakref__", "_origin", "_turned", "_which", "col", "crow", "order", "shape", "versions",
    )  # fmt: skip

    def __init__(self, crow, col, order, shape, versions=()):
        self.crow, self.col, self.order, self.shape = crow, col, order, shape
        self.versions = versions
        self._turned = self._which = None
        self._origin = None  # whose turned one this is; weakly, so that memory goes at once

    @property
    def rows(self):
        """The row of each element."""
        if self._which is None:
            self._which = groups_of(self.crow)
        return self._which

    def turned(self):
        """The same elements, column by column."""
        origin = self._origin() if self._origin is not None else None
        if origin is not None:
            return origin
        if self._turned is None:
            columns, order = self.col.sort(stable=True)
            mine = order if self.order is None else self.order.index_select(0, order)
            made = Rows(bounds_of(columns, self.shape[1]), self.rows.index_select(0, order), mine,
                        self.shape[::-1], self.versions)  # fmt: skip
            made._origin = weakref.ref(self)
            self._turned = made
        return self._turned


def _rows_of_coo(indices, shape, ordered):
    rows, columns = indices
    if indices.shape[1]:
        low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
        if min(low) < 0 or high[0] >= shape[0] or high[1] >= shape[1]:
            raise RuntimeError(f"sparse product: indices from {low} to {high} are out of range for "
                               f"sizes {list(shape)}")  # fmt: skip
    order = None
    if not ordered and indices.shape[1] > 1 and bool((rows[1:] < rows[:-1]).any()):
        rows, order = rows.sort(stable=True)
        columns = columns.index_select(0, order)
    return Rows(bounds_of(rows, shape[0]), columns.contiguous(), order, tuple(shape))


def rows_of(x: SparseTensor) -> Rows:
    """The places of a matrix' elements; kept with it until its indices are written to."""
    versions = tuple(p._version for p in x._parts)
    kept = x._rows
    if kept is not None and kept.versions == versions:
        return kept
    if x._layout is COO:
        found = _rows_of_coo(x._parts[0], x.shape, x._sorted)
    elif x._layout in (CSR, CSC):
        compressed, plain = x._parts
        long, wide = x.shape if x._layout is CSR else x.shape[::-1]
        check_bounds("sparse product", ("compressed indices", "plain indices"), compressed, plain,
                     wide)  # fmt: skip
        found = Rows(compressed.long(), plain.long(), None, (long, wide))
        if x._layout is CSC:
            found, columns = found.turned(), found
            found._turned, found._origin = columns, None  # it is the first of the two here
            columns._turned, columns._origin = None, weakref.ref(found)
    else:
        raise NotImplementedError(f"sparse product: layout {NAMES[x._layout]}")
    found.versions = versions
    if found._turned is not None:
        found._turned.versions = versions
    x._rows = found
    return found


def _has_kernel(x):
    return x.dtype in _KERNELS and _C._dual_level() == 0  # tangents pass through other operators


def _weights(values, rows):
    return values if rows.order is None else values.index_select(0, rows.order)


def _multiply(values, dense, rows):
    """A matrix [r, c] with these values times a dense one [c, k]."""
    weights = _weights(values, rows)
    if _has_kernel(values):
        return _C._sparse_product(weights, dense, rows.col, rows.crow)
    parts = dense.index_select(0, rows.col) * weights[:, None]
    return add_up(parts, rows.rows, rows.shape[0])


def _sample(left, right, rows):
    """The product of left [r, k] and right [c, k] transposed, at the places of a matrix only."""
    if _has_kernel(left):
        found = _C._sampled_product(left, right, rows.col, rows.crow)
    else:
        found = (left.index_select(0, rows.rows) * right.index_select(0, rows.col)).sum(1)
        found = found.to(left.dtype)
    if rows.order is None:
        return found
    return _C.empty_like(found).index_copy(0, rows.order, found)


class _OverRows(Function):
    """A formula `run` over two tensors and the places of a matrix, which are the same again in its
    gradients, `of_first` and `of_second`."""

    run: Any
    of_first: Any
    of_second: Any

    @classmethod
    def forward(cls, ctx: Any, first: Tensor, second: Tensor, rows: Rows) -> Tensor:
        ctx.save_for_backward(first, second)
        ctx.rows = rows
        return cls.run(first, second, rows)

    @classmethod
    def backward(cls, ctx: Any, grad: Tensor) -> Any:
        first, second = (t.conj() for t in ctx.saved_tensors)
        wanted = ctx.needs_input_grad
        return (
            cls.of_first(grad, second, ctx.rows) if wanted[0] else None,
            cls.of_second(grad, first, ctx.rows.turned()) if wanted[1] else None,
            None,
        )


class _Product(_OverRows):
    run = staticmethod(_multiply)  # of values and a dense matrix
    of_first = staticmethod(lambda grad, dense, rows: sampled(grad, dense, rows))
    of_second = staticmethod(lambda grad, values, turned: product(values, grad, turned))


class _Sampled(_OverRows):
    run = staticmethod(_sample)  # of two dense matrices
    of_first = staticmethod(lambda grad, right, rows: product(grad, right, rows))
    of_second = staticmethod(lambda grad, left, turned: product(grad, left, turned))


def _is_recorded(*tensors):
    recorded = _C.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return recorded and _C._dual_level() == 0


def product(values: Tensor, dense: Tensor, rows: Rows) -> Tensor:
    """A matrix with these values times a dense one, with gradients of both."""
    if _is_recorded(values, dense):
        return _Product.apply(values, dense, rows)
    return _multiply(values, dense, rows)


def sampled(left: Tensor, right: Tensor, rows: Rows) -> Tensor:
    """left times right transposed at the places of a matrix, with gradients of both."""
    if _is_recorded(left, right):
        return _Sampled.apply(left, right, rows)
    return _sample(left, right, rows)


def _matrix(name, x):
    """A matrix in a layout that products know; blocks become elements."""
    if x.dim() != 2 or (x._layout is COO and x._vals.dim() != 1):
        raise RuntimeError(
            f"{name}: expected a matrix, got a sparse tensor of sizes {list(x.shape)}"
            + (" with dense dims" if x.dense_dim() else "")
        )
    return to_coo(x) if x._layout in BLOCK_LAYOUTS else x


def _lowered(a, b):
    """Both matrices in the dtype that autocast wants for products."""
    kind = a.device.type
    if kind not in ("cpu", "cuda") or not _C.is_autocast_enabled(kind):
        return a, b
    dtype = _C.get_autocast_dtype(kind)
    return tuple(
        t.to(dtype) if t.is_floating_point() and t.dtype != _C.float64 else t for t in (a, b)
    )


def _check_types(name, a, b):
    if a.dtype != b.dtype:
        raise _C.DTypeError(
            f"{name}: both matrices must have one dtype, got {a.dtype} and {b.dtype}"
        )
    if a.device != b.device:
        raise _C.DeviceError(f"{name}: the matrices are on {a.device} and {b.device}")


def _times_sparse(a, b):
    """The product of two sparse matrices, as a coalesced sparse_coo tensor."""
    rows = rows_of(b)
    left = to_coo(a)
    inner, outer = left._parts[0][1], left._parts[0][0]
    begin = rows.crow.index_select(0, inner)
    counts = rows.crow.index_select(0, inner + 1) - begin
    total = int(counts.sum())
    which = numbers(left._vals.shape[0], inner).repeat_interleave(counts, output_size=total)
    first = counts.cumsum(0) - counts
    at = numbers(total, inner) - (first - begin).index_select(0, which)
    columns = rows.col.long().index_select(0, at)
    values = left._vals.index_select(0, which) * _weights(b._vals, rows).index_select(0, at)
    indices = _C.stack((outer.index_select(0, which), columns))
    return coalesce(make(COO, (indices,), values, (a.shape[0], b.shape[1])))


def mm(input: Any, mat2: Any, *, name: str = "mm") -> Any:
    """The product of two matrices, of which at least one is sparse."""
    a, b = input, mat2
    if not isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        raise RuntimeError(f"{name}: one of the matrices must be sparse")
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"{name}: expected two matrices, got sizes {list(a.shape)} and "
                           f"{list(b.shape)}")  # fmt: skip
    if a.shape[1] != b.shape[0]:
        raise _C.ShapeError(f"{name}: inner sizes differ: the first is {list(a.shape)}, the second "
                            f"{list(b.shape)}")  # fmt: skip
    a, b = _lowered(a, b)
    _check_types(name, a, b)
    if not isinstance(b, SparseTensor):
        a = _matrix(name, a)
        return product(a._vals, b, rows_of(a))
    b = _matrix(name, b)
    if not isinstance(a, SparseTensor):
        return product(b._vals, a.t(), rows_of(b).turned()).t()
    layout = a._layout
    found = _times_sparse(_matrix(name, a), b)
    return to_sparse(found, layout=CSR) if layout is CSR else found


def mv(input: Any, vec: Any, *, name: str = "mv") -> Tensor:
    """A sparse matrix times a vector."""
    a, b = input, vec
    if a.dim() != 2 or b.dim() != 1 or isinstance(b, SparseTensor):
        raise RuntimeError(
            f"{name}: expected a matrix and a dense vector, got sizes {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    return mm(a, b.unsqueeze(1), name=name).squeeze(1)


def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of matrices side by side: a sparse_coo tensor times a dense one, or the reverse."""
    a, b = input, mat2
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(f"bmm: sizes {list(a.shape)} and {list(b.shape)} do not go together")
    a, b = _lowered(a, b)
    _check_types("bmm", a, b)
    if not isinstance(a, SparseTensor):
        return bmm(b.transpose(1, 2), a.transpose(1, 2)).transpose(1, 2)
    if isinstance(b, SparseTensor) or a._layout is not COO or a.dense_dim():
        raise NotImplementedError("bmm: one of the tensors must be dense, the other of layout "
                                  "sparse_coo without dense dims")  # fmt: skip
    count, rows, inner = a.shape
    batch, row, column = a._parts[0]
    indices = _C.stack((batch * rows + row, batch * inner + column))
    wide = make(COO, (indices,), a._vals, (count * rows, count * inner), a._sorted)
    columns = b.shape[2]
    found = product(a._vals, b.reshape(count * inner, columns), rows_of(wide))
    return found.reshape(count, rows, columns)


def matmul(input: Any, other: Any) -> Any:
    """input @ other where at least one is sparse."""
    a, b = input, other
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        raise TypeError("matmul: expected two tensors")
    if a.dim() == 2 and b.dim() == 2:
        return mm(a, b, name="matmul")
    if a.dim() == 2 and b.dim() == 1:
        return mv(a, b)
    if a.dim() == 1 and b.dim() == 2:
        return mv(b.transpose(0, 1), a)
    if a.dim() == 3 and b.dim() == 3:
        return bmm(a, b)
    raise NotImplementedError(
        f"matmul: sparse tensors of sizes {list(a.shape)} and {list(b.shape)}; "
        "matrices, vectors and batches of matrices are there"
    )


def _factor(name, factor, dtype):
    """alpha or beta as a number of the dtype's kind: of integers the part before the point."""
    if isinstance(factor, Tensor):
        factor = factor.item()
    if isinstance(factor, complex) and not dtype.is_complex:
        raise RuntimeError(f"{name}: {factor} does not go with numbers of {dtype}")
    return factor if dtype.is_floating_point or dtype.is_complex else int(factor)


def _added(name, input, found, beta, alpha):
    """beta * input + alpha * found, a product; input may have to be expanded."""
    if input.dtype != found.dtype:
        raise _C.DTypeError(f"{name}: input must have the dtype of the product, {found.dtype}, got "
                            f"{input.dtype}")  # fmt: skip
    alpha, beta = (_factor(name, f, found.dtype) for f in (alpha, beta))
    if not isinstance(input, SparseTensor):
        wanted = found.shape[found.dim() - input.dim() :] if input.dim() <= found.dim() else None
        if wanted is None or any(n not in (1, m) for n, m in zip(input.shape, wanted, strict=True)):
            raise _C.ShapeError(f"{name}: input of sizes {list(input.shape)} does not expand to "
                                f"those of the product, {list(found.shape)}")  # fmt: skip
        found = to_dense(found)
    elif not isinstance(found, SparseTensor):
        raise RuntimeError(f"{name}: a sparse input goes with two sparse matrices")
    if alpha != 1:
        found = found * alpha
    if beta == 0 and (not isinstance(input, SparseTensor) or input._layout is found._layout):
        return found  # whatever is in input, nan too
    return (input if beta == 1 else input * beta) + found


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    return _added("addmm", input, mm(mat1, mat2, name="addmm"), beta, alpha)


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    return _added("addmv", input, mv(mat, vec, name="addmv"), beta, alpha)


def sampled_addmm(
    input: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> SparseTensor:
    """alpha * (mat1 @ mat2) at the places of a CSR matrix, plus beta times it."""
    name = "sampled_addmm"
    if not isinstance(input, SparseTensor) or input._layout is not CSR:
        raise RuntimeError(f"{name}: input must be of layout sparse_csr")
    if isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        raise RuntimeError(f"{name}: mat1 and mat2 must be dense")
    if mat1.dim() != 2 or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0] or (
        (mat1.shape[0], mat2.shape[1]) != tuple(input.shape)
    ):  # fmt: skip
        raise _C.ShapeError(
            f"{name}: the product of sizes {list(mat1.shape)} and {list(mat2.shape)} "
            f"must have those of input, {list(input.shape)}"
        )
    _check_types(name, mat1, mat2)
    _check_types(name, input, mat1)
    values = sampled(mat1, mat2.t(), rows_of(input))
    values = values * alpha if alpha != 1 else values
    if beta != 0:
        values = values + (input._vals if beta == 1 else input._vals * beta)
    made = make(CSR, input._parts, values, input.shape)
    made._rows = input._rows
    return _into(name, made, out)


def _into(name, made, out):
    if out is None:
        return made
    if not isinstance(out, SparseTensor):
        raise RuntimeError(f"{name}: out must be sparse, too")
    return out.copy_(made)


def smm(input: Any, mat: Any) -> SparseTensor:
    """The product of a sparse and a dense matrix, as a sparse one.

    Arguments:
        input: the sparse matrix.
        mat: the dense one.

    Example:
        >>> rl.smm(rl.eye(2).to_sparse(), rl.ones(2, 1)).layout
        rushlight.sparse_coo
    """
    return to_sparse(mm(input, mat, name="smm").to_dense())


def hspmm(mat1: Tensor, mat2: Tensor) -> SparseTensor:
    """A sparse times a dense matrix: the rows that are not empty, as a sparse tensor.

    Arguments:
        mat1: the sparse matrix.
        mat2: the dense one.

    Example:
        >>> x = rl.hspmm(rl.sparse_coo_tensor([[1], [0]], [3.0], (3, 2)), rl.ones(2, 2))
        >>> x.indices(), x.values()
        (tensor([[1]]), tensor([[3., 3.]]))
    """
    return from_dense(mm(mat1, mat2, name="hspmm"), 1)


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2), where input and mat1 are sparse, as a sparse one.

    Arguments:
        input, mat1: sparse matrices.
        mat2: a dense one.
        beta, alpha: numbers.

    Example:
        >>> x = rl.eye(2).to_sparse()
        >>> rl.sspaddmm(x, x, rl.ones(2, 2), beta=0, alpha=2).to_dense()
        tensor([[2., 2.],
                [2., 2.]])
    """
    return input * beta + smm(mat1, mat2) * alpha


def spsolve(input: Any, other: Tensor, *, left: bool = True) -> Tensor:
    """The x with input @ x == other, for a square matrix of layout sparse_csr.

    The matrix is factorised as a dense one, so its n * n elements must fit into memory.
    """
    if not isinstance(input, SparseTensor) or input._layout is not CSR:
        raise RuntimeError("spsolve: input must be a matrix of layout sparse_csr")
    if not left:
        raise NotImplementedError("spsolve: only left=True is there")
    if other.dim() != 1:
        raise RuntimeError(f"spsolve: other must be a vector, got sizes {list(other.shape)}")
    from rushlight import linalg

    return linalg.solve(input.to_dense(), other)
