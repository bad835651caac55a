"""SparseTensor: a tensor that holds indices and values instead of all its elements.

It derives from Tensor, so that programs see one; to the core it has sizes, a dtype and a device,
but no memory (csrc/core/memoryless.h). Operators come to `__torch_function__`, and the rules that
run them (_rules.py and its neighbours) work on the indices and the values, which are ordinary
tensors. Gradients flow through the values: a sparse tensor requires grad where they do, and its
gradient is theirs, at the same places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor

if TYPE_CHECKING:
    from rushlight.utils.hooks import RemovableHandle

COO, CSR, CSC, BSR, BSC = (
    _C.sparse_coo, _C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc,
)  # fmt: skip
ROW_LAYOUTS = (CSR, BSR)  # whose compressed indices count rows
BLOCK_LAYOUTS = (BSR, BSC)

# Names of layouts in texts, as PyTorch's printed tensors have them behind the package.
NAMES = {COO: "sparse_coo", CSR: "sparse_csr", CSC: "sparse_csc", BSR: "sparse_bsr",
         BSC: "sparse_bsc"}  # fmt: skip


def _of_values(name: str) -> Any:
    """A property that is that of the values."""
    return property(lambda self: getattr(self._vals, name), doc=f"The {name} of the values.")


class SparseTensor(Tensor):
    """A tensor whose layout is sparse_coo, sparse_csr, sparse_csc, sparse_bsr or sparse_bsc."""

    _layout: Any
    _parts: tuple[Tensor, ...]  # indices; or compressed and plain indices
    _vals: Tensor
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

    def untyped_storage(self) -> NoReturn:
        """Raises: there is no memory that holds all elements."""
        raise NotImplementedError(
            "untyped_storage: a sparse tensor has no storage of its own; its values() have"
        )

    def storage(self) -> NoReturn:
        """Raises: there is no memory that holds all elements."""
        raise NotImplementedError(
            "storage: a sparse tensor has no storage of its own; its values() have"
        )

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raises: NumPy has no sparse arrays."""
        raise TypeError("numpy: a sparse tensor is no array; use to_dense() first")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("numpy: a sparse tensor is no array; use to_dense() first")

    def tolist(self) -> NoReturn:
        """Raises: the elements are not all there."""
        raise RuntimeError("tolist: a sparse tensor has no list of all elements; to_dense() has")

    def _one(self) -> Tensor:
        """The only element, as a dense tensor."""
        if self.numel() != 1:
            raise RuntimeError(
                f"item: only a tensor with one element converts to a number, this one has "
                f"shape {list(self.shape)}"
            )
        return self.to_dense()

    def item(self) -> int | float | bool:
        """The number that a tensor of one element holds."""
        return self._one().item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError(f"bool: a tensor of shape {list(self.shape)} is neither true nor "
                               "false; use .any()")  # fmt: skip
        return bool(self._one())

    def __float__(self) -> float:
        return float(self._one())

    def __int__(self) -> int:
        return int(self._one())

    def __complex__(self) -> complex:
        return complex(self._one())

    def __index__(self) -> int:
        return self._one().__index__()

    # Gradients: those of the values.

    is_leaf = _of_values("is_leaf")
    grad_fn = _of_values("grad_fn")
    retains_grad = _of_values("retains_grad")
    output_nr = _of_values("output_nr")
    _version = _of_values("_version")

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the values are recorded."""
        return self._vals.requires_grad

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        self._vals.requires_grad = on

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Sets requires_grad; returns the tensor."""
        self._vals.requires_grad_(requires_grad)
        return self

    @property  # type: ignore[override]
    def grad(self) -> SparseTensor | None:
        """The gradient, with the indices of this tensor, or None."""
        found = self._vals.grad
        if found is None:
            return None
        made = with_values(self, found)
        made._is_grad = True
        return made

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and tuple(value.shape) != tuple(self.shape):
            raise RuntimeError(f"grad: the tensor has sizes {list(self.shape)}, the gradient "
                               f"{list(value.shape)}")  # fmt: skip
        self._vals.grad = None if value is None else values_at(self, value)

    @grad.deleter
    def grad(self) -> None:
        self._vals.grad = None

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

    def retain_grad(self) -> None:
        """Keeps the gradient of a tensor that is no leaf."""
        self._vals.retain_grad()

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Calls hook(grad) when the gradient is there; what it returns takes its place."""

        def of_values(grad):
            found = hook(with_values(self, grad))
            return None if found is None else values_at(self, found)

        return self._vals.register_hook(of_values)

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False,
                 inputs: Any = None) -> None:  # fmt: skip
        """Adds to the gradients of the leaves that the values were computed from."""
        if gradient is None:
            raise RuntimeError("backward: a sparse tensor needs a gradient of its shape")
        seed = values_at(self, gradient)
        self._vals.backward(seed, retain_graph, create_graph, inputs)

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
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: only tensors created by the user (leaves of the graph) can be "
                "deep-copied; use tensor.detach().clone() for the others"
            )
        values = self._vals.detach().clone().requires_grad_(self.requires_grad)
        if self._vals.grad is not None:
            values.grad = self._vals.grad.detach().clone()
        parts = tuple(p.clone() for p in self._parts)
        memo[id(self)] = made = make(self._layout, parts, values, self.shape, self._sorted)
        made._is_param = self._is_param
        return made

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __len__(self) -> int:
        if self.dim() == 0:
            raise TypeError("len: a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    __hash__ = Tensor.__hash__


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
