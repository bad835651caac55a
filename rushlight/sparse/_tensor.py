"""SparseTensor: a tensor that holds indices and values instead of all its elements.

It derives from Tensor, so that programs see one; to the core it has sizes, a dtype and a device,
but no memory (csrc/core/memoryless.h). Operators come to `__torch_function__`, and the rules that
run them (_rules.py and its neighbours) work on the indices and the values, which are ordinary
tensors. Gradients flow through the values: a sparse tensor requires grad where they do, and its
gradient is theirs, at the same places (rushlight/_tensor/of_values.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor
from rushlight._tensor.of_values import TensorOfValues

COO, CSR, CSC, BSR, BSC = (
    _C.sparse_coo, _C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc,
)  # fmt: skip
ROW_LAYOUTS = (CSR, BSR)  # whose compressed indices count rows
BLOCK_LAYOUTS = (BSR, BSC)

# Names of layouts in texts, as PyTorch's printed tensors have them behind the package.
NAMES = {COO: "sparse_coo", CSR: "sparse_csr", CSC: "sparse_csc", BSR: "sparse_bsr",
         BSC: "sparse_bsc"}  # fmt: skip


class SparseTensor(TensorOfValues):
    """A tensor whose layout is sparse_coo, sparse_csr, sparse_csc, sparse_bsr or sparse_bsc."""

    _layout: Any
    _parts: tuple[Tensor, ...]  # indices; or compressed and plain indices
    _sorted: bool  # COO: are the indices in order, each there once?
    _rows: Any  # what products need to know of the indices, see _products.py
    _is_param = False  # nn.Parameter says so of those that it is given
    _is_grad = False  # the gradient of another tensor, in whose memory it lies

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        from rushlight.sparse._rules import dispatch

        return dispatch(func, args, kwargs or {})

    # What kind of tensor it is.

    @property
    def layout(self) -> _C.layout:
        """How the elements are stored."""
        return self._layout

    @property
    def is_sparse(self) -> bool:
        """True for the layout sparse_coo."""
        return self._layout is COO

    @property
    def is_sparse_csr(self) -> bool:
        """True for the layout sparse_csr."""
        return self._layout is CSR

    @property
    def nbytes(self) -> int:
        """Bytes of the values and the indices."""
        return self._vals.nbytes + sum(p.nbytes for p in self._parts)

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order."""
        return self.permute(*range(self.dim() - 1, -1, -1))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
        return self.transpose(-2, -1)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
        if self.dim() not in (0, 2):
            raise RuntimeError(f"H: expected a matrix, got {self.dim()} dims; mH takes batches")
        return self.t().conj()

    @property
    def mH(self) -> Tensor:
        """The conjugate, with the last two dimensions exchanged."""
        return self.transpose(-2, -1).conj()

    @property
    def real(self) -> Tensor:
        """The real parts."""
        return with_values(self, self._vals.real)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts."""
        return with_values(self, self._vals.imag)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> str | SparseTensor:  # type: ignore[override]
        """The legacy name of the tensor's type, or the tensor converted to a dtype."""
        if dtype is not None:
            values = self._vals.type(dtype)
            return self if values is self._vals else with_values(self, values)
        package, _, rest = self._vals.type().partition(".")
        place, _, name = rest.rpartition(".")
        space = "sparse" if self._layout is COO else NAMES[self._layout]
        return ".".join(p for p in (package, place, space, name) if p)

    def stride(self, dim: Any = None) -> int | tuple[int, ...]:  # type: ignore[override]
        """Zeros: the elements of a sparse_coo tensor do not lie in steps; others have none."""
        if self._layout is not COO:
            raise RuntimeError(f"stride: tensors of layout {NAMES[self._layout]} have no strides")
        return (0,) * self.dim() if dim is None else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False."""
        return False

    def storage_offset(self) -> int:
        """0."""
        return 0

    def data_ptr(self) -> int:
        """Raises: there is no memory that holds all elements."""
        raise RuntimeError("data_ptr: a sparse tensor has no memory of its own; its values() have")

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raises: NumPy has no sparse arrays."""
        raise TypeError("numpy: a sparse tensor is no array; use to_dense() first")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("numpy: a sparse tensor is no array; use to_dense() first")

    def tolist(self) -> NoReturn:
        """Raises: the elements are not all there."""
        raise RuntimeError("tolist: a sparse tensor has no list of all elements; to_dense() has")

    def _like(self, values: Tensor) -> SparseTensor:
        return with_values(self, values)

    def _values_at(self, op: str, given: Any) -> Tensor:
        if tuple(given.shape) != tuple(self.shape):
            raise RuntimeError(f"{op}: the tensor has sizes {list(self.shape)}, the gradient "
                               f"{list(given.shape)}")  # fmt: skip
        return values_at(self, given)

    def _plain(self) -> Tensor:
        return self.to_dense()

    def _as_grad(self, values: Tensor) -> SparseTensor:
        made = with_values(self, values)
        made._is_grad = True
        return made

    @property  # type: ignore[override]
    def data(self) -> SparseTensor:
        """The tensor, cut off from the graph."""
        return with_values(self, self._vals.detach())

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, SparseTensor) or value._layout is not self._layout:
            raise RuntimeError(f"data: expected a tensor of layout {NAMES[self._layout]}")
        values, grad = value._vals.detach(), self._vals.grad
        if self.requires_grad:
            values.requires_grad_()
        if grad is not None and grad.shape == values.shape and grad.dtype == values.dtype:
            values.grad = grad
        replace(self, value._parts, values, value._sorted, value.shape)

    def _any_nan(self) -> bool:
        return bool(self._vals.isnan().any())

    # Copies and texts.

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from rushlight.sparse._text import text_of

        return text_of(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from rushlight._utils import _rebuild_sparse_tensor

        if self._is_param:
            from rushlight.nn.parameter import Parameter, rebuild_parameter

            return rebuild_parameter, (Parameter, self.data, self.requires_grad)
        values = self._vals if self._vals.is_leaf else self._vals.detach()
        size = _C.Size(self.shape)
        if self._layout is COO:
            return _rebuild_sparse_tensor, (COO, (self._parts[0], values, size, self._sorted))
        return _rebuild_sparse_tensor, (self._layout, (*self._parts, values, size))

    def __deepcopy__(self, memo: Any) -> SparseTensor:
        if id(self) in memo:
            return memo[id(self)]
        values = self._copied_values()
        parts = tuple(p.clone() for p in self._parts)
        memo[id(self)] = made = make(self._layout, parts, values, self.shape, self._sorted)
        made._is_param = self._is_param
        return made

    def __len__(self) -> int:
        if self.dim() == 0:
            raise TypeError("len: a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))


def make(
    layout: Any,
    parts: Sequence[Tensor],
    values: Tensor,
    size: Sequence[int],
    coalesced: bool = False,
) -> SparseTensor:
    """A sparse tensor of parts that fit together; they are not copied."""
    made: SparseTensor = _C._make_memoryless(SparseTensor, size, values.dtype, values.device)
    made._layout, made._parts, made._vals = layout, tuple(parts), values
    made._sorted, made._rows = coalesced, None
    return made


def with_values(x: SparseTensor, values: Tensor) -> SparseTensor:
    """A tensor with other values at the same places."""
    shape = x.shape
    if x._layout is COO and values.dim() != x._vals.dim():
        shape = (*shape[: x._parts[0].shape[0]], *values.shape[1:])
    made = make(x._layout, x._parts, values, shape, x._sorted)
    made._rows = x._rows
    return made


def replace(x: SparseTensor, parts: Any, values: Tensor, coalesced: bool, size: Any) -> None:
    """x becomes a tensor of other parts, in place."""
    if (tuple(size), values.dtype, values.device) != (tuple(x.shape), x.dtype, x.device):
        _C._reset_memoryless(x, tuple(size), values.dtype, values.device)
    x._parts, x._vals, x._sorted, x._rows = tuple(parts), values, coalesced, None


def values_at(x: SparseTensor, given: Any) -> Tensor:
    """The values of a tensor, sparse or dense, at the places of x."""
    if isinstance(given, SparseTensor) and given._layout is x._layout:
        same = given.shape == x.shape and len(given._vals) == len(x._vals) and all(
            a is b or _C.equal(a, b) for a, b in zip(given._parts, x._parts, strict=True)
        )  # fmt: skip
        if same:
            return given._vals
    from rushlight.sparse._convert import sparse_mask

    return sparse_mask(given, x)._vals
