"""Sparse tensors from their parts, and the rules that these must keep."""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.sparse._tensor import (
    BLOCK_LAYOUTS,
    COO,
    NAMES,
    ROW_LAYOUTS,
    SparseTensor,
    make,
)


class _Checks(threading.local):
    on = False


_checks = _Checks()


class check_sparse_tensor_invariants:
    """Whether functions that make sparse tensors check everything that must hold for their parts;
    a context manager, a decorator, and three functions. What would let a product read beyond its
    memory is checked in any case."""

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether everything is checked."""
        return _checks.on

    @staticmethod
    def enable() -> None:
        """From now on everything is checked, in this thread."""
        _checks.on = True

    @staticmethod
    def disable() -> None:
        """From now on only what memory needs is checked."""
        _checks.on = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "check_sparse_tensor_invariants: this object is entered already; make another one"
            )
        self.saved_state, _checks.on = _checks.on, self.state

    def __exit__(self, *error: object) -> None:
        assert self.saved_state is not None
        _checks.on, self.saved_state = self.saved_state, None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def _values(name, values, dtype, device):
    if not isinstance(values, Tensor):
        values = _C.tensor(values, dtype=dtype, device=device)
    elif isinstance(values, SparseTensor):
        raise TypeError(f"{name}: values must be a strided tensor, not one of layout "
                        f"{NAMES[values._layout]}")  # fmt: skip
    given = values
    if dtype is not None or device is not None:
        values = values.to(dtype=dtype or values.dtype, device=device or values.device)
    if values.dim() == 0:
        values = values.reshape(1)
    # A leaf of its own, or a tensor in the graph (or with the tangent) of what was given.
    tied = given.requires_grad or _C._dual_level() > 0
    return values.view_as(values) if tied else values.detach()


def _sizes(name, size):
    given = (size,) if hasattr(size, "__index__") else size
    if isinstance(given, Tensor) or not all(hasattr(n, "__index__") for n in given):
        raise TypeError(f"{name}: size must be a tuple of ints, got {size!r}")
    size = tuple(operator.index(n) for n in given)
    for n in size:
        if n < 0:
            raise RuntimeError(f"{name}: sizes must not be negative, got {list(size)}")
    return size


def _finish(made, requires_grad, pin_memory=False):
    if pin_memory:
        made = made.pin_memory()
    if requires_grad and not made._vals.is_leaf:
        made._vals = made._vals.detach()
    return made.requires_grad_() if requires_grad else made


def extremes(t: Tensor) -> tuple[list[int], list[int]]:
    """The smallest and the largest index of each row; t is not empty."""
    return t.amin(-1).tolist(), t.amax(-1).tolist()


def check_coo(name: str, indices: Tensor, values: Tensor, size: Sequence[int]) -> None:
    """Raises where an index, or a shape, does not fit the size."""
    sparse_dim = indices.shape[0]
    if sparse_dim + values.dim() - 1 != len(size):
        raise RuntimeError(
            f"{name}: {sparse_dim} sparse dims of the indices and {values.dim() - 1} dense dims of "
            f"the values do not make the {len(size)} dims of size {list(size)}"
        )
    if tuple(values.shape[1:]) != tuple(size[sparse_dim:]):
        raise RuntimeError(
            f"{name}: values of shape {list(values.shape)} do not fit size "
            f"{list(size)}, whose dense dims are {list(size[sparse_dim:])}"
        )
    if indices.numel() == 0 or indices.is_meta:
        return
    low, high = extremes(indices)
    for d in range(sparse_dim):
        if low[d] < 0:
            raise RuntimeError(f"{name}: found negative index {low[d]} for dim {d}")
        if high[d] >= size[d]:
            raise RuntimeError(f"{name}: index {high[d]} of dim {d} is out of range for size "
                               f"{size[d]}")  # fmt: skip


def _check_is_coalesced(name, indices, size):
    from rushlight.sparse._convert import keys_of

    keys = keys_of(indices, size)
    if keys.numel() > 1 and not bool((keys[1:] > keys[:-1]).all()):
        raise RuntimeError(f"{name}: is_coalesced=True needs indices in order, each there once; "
                           "they are not")  # fmt: skip


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A tensor of layout sparse_coo: values at indices, of which there is one row per sparse dim.

    Values at the same index add up. With a size alone, an empty tensor.

    Arguments:
        indices: (sparse dims, elements), where the values are.
        values: (elements, ...), one number per index, or a whole tensor.
        size: the whole tensor's sizes; None finds the smallest that fit.
        dtype, device: of the values; None takes those that are given.
        pin_memory: put it into page-locked memory.
        requires_grad: record what is done with it.
        check_invariants: check all that the layout promises, not only what memory needs.
        is_coalesced: the indices are in order, and each is there once.

    Example:
        >>> x = rl.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3))
        >>> x.to_dense()
        tensor([[0., 0., 3.],
                [9., 0., 0.]])
    """
    name = "sparse_coo_tensor"
    if values is None and (indices is None or size is None):
        size = _sizes(name, indices if size is None else size)
        dtype = dtype or _C.get_default_dtype()
        device = _C.device(device) if device is not None else _C.get_default_device()
        empty = _C.empty(len(size), 0, dtype=_C.int64, device=device)
        made = make(COO, (empty,), _C.empty(0, dtype=dtype, device=device), size, True)
        return made.requires_grad_(requires_grad)
    values = _values(name, values, dtype, device)
    if not isinstance(indices, Tensor):
        indices = _C.tensor(indices)
    if indices.dim() != 2:
        raise RuntimeError(f"{name}: indices must have 2 dims, sparse dims x elements, got shape "
                           f"{list(indices.shape)}")  # fmt: skip
    indices = indices.detach().to(values.device, _C.int64)
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(f"{name}: there are {indices.shape[1]} indices and {values.shape[0]} "
                           "values; each value needs one")  # fmt: skip
    if size is None:
        if indices.shape[1] == 0 and indices.shape[0] > 0:
            top = [0] * indices.shape[0]
        else:
            top = [n + 1 for n in indices.amax(1).tolist()] if indices.shape[0] else []
        size = (*top, *values.shape[1:])
    size = _sizes(name, size)
    check_coo(name, indices, values, size)
    if is_coalesced and (_checks.on if check_invariants is None else check_invariants):
        _check_is_coalesced(name, indices, size[: indices.shape[0]])
    made = make(COO, (indices,), values, size, bool(is_coalesced))
    return _finish(made, requires_grad, pin_memory)


def block_size(layout: Any, values: Tensor) -> tuple[int, int]:
    """Rows and columns of one block; of layouts without blocks (1, 1)."""
    return (values.shape[1], values.shape[2]) if layout in BLOCK_LAYOUTS else (1, 1)


def _words(layout):
    return ("crow_indices", "col_indices") if layout in ROW_LAYOUTS else (
        "ccol_indices", "row_indices")  # fmt: skip


def _inferred_size(layout, compressed, plain, values):
    block = block_size(layout, values)
    long = max(compressed.shape[0] - 1, 0)
    wide = int(plain.max()) + 1 if plain.numel() else 0
    rows, columns = (long, wide) if layout in ROW_LAYOUTS else (wide, long)
    dense = values.shape[3:] if layout in BLOCK_LAYOUTS else values.shape[1:]
    return (rows * block[0], columns * block[1], *dense)


def check_bounds(name: str, words: tuple[str, str], compressed: Tensor, plain: Tensor,
                 count: int) -> None:  # fmt: skip
    """Raises where compressed or plain indices would lead out of the memory; `count` is how many
    plain indices are possible."""
    nnz = plain.shape[-1]
    if compressed.is_meta:
        return
    first, last = compressed[0].item(), compressed[-1].item()
    if first != 0 or last != nnz:
        raise RuntimeError(
            f"{name}: {words[0]} must begin with 0 and end with the number of values, "
            f"{nnz}; they begin with {first} and end with {last}"
        )
    steps = compressed.diff()
    if steps.numel() and steps.min().item() < 0:
        raise RuntimeError(f"{name}: {words[0]} must not fall from one element to the next")
    if nnz and (plain.min().item() < 0 or plain.max().item() >= count):
        raise RuntimeError(f"{name}: {words[1]} must be between 0 and {count - 1}, got "
                           f"{plain.min().item()} to {plain.max().item()}")  # fmt: skip


def _check_index(name, word, t):
    if t.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"{name}: {word} must be int64 or int32, got {t.dtype}")
    if t.dim() > 1:
        raise NotImplementedError(
            f"{name}: batches of matrices are not there; {word} has shape {list(t.shape)}"
        )
    if t.dim() == 0:
        raise RuntimeError(f"{name}: {word} must be a list of ints, got one number")


def _check_compressed(name, layout, compressed, plain, values, size, thorough):
    words = _words(layout)
    if compressed.dtype != plain.dtype:
        raise RuntimeError(f"{name}: {words[0]} and {words[1]} must have one dtype, got "
                           f"{compressed.dtype} and {plain.dtype}")  # fmt: skip
    blocks = layout in BLOCK_LAYOUTS
    if len(size) != 2 + values.dim() - (3 if blocks else 1):
        raise RuntimeError(f"{name}: values of shape {list(values.shape)} do not go with size "
                           f"{list(size)}")  # fmt: skip
    block = block_size(layout, values)
    if any(b <= 0 or n % b for n, b in zip(size[:2], block, strict=True)):
        raise RuntimeError(f"{name}: size {list(size)} is no multiple of the blocks, {block}")
    rows, columns = size[0] // block[0], size[1] // block[1]
    long, wide = (rows, columns) if layout in ROW_LAYOUTS else (columns, rows)
    if compressed.shape[0] != long + 1:
        raise RuntimeError(f"{name}: {words[0]} must have {long + 1} elements for size "
                           f"{list(size)}, got shape {list(compressed.shape)}")  # fmt: skip
    if plain.shape[0] != values.shape[0]:
        raise RuntimeError(f"{name}: there are {plain.shape[0]} {words[1]} and {values.shape[0]} "
                           "values; each value needs one")  # fmt: skip
    check_bounds(name, words, compressed, plain, wide)
    if thorough and plain.numel() > 1:
        starts = _C.zeros(plain.shape[0] + 1, dtype=_C.bool, device=plain.device)
        starts[compressed.long()] = True
        if not bool(((plain[1:] > plain[:-1]) | starts[1:-1]).all()):
            raise RuntimeError(f"{name}: {words[1]} must be in order, and each there once, between "
                               f"two {words[0]}")  # fmt: skip


def _compressed(name, layout, parts, values, size, dtype, device, pinned, requires_grad, thorough):
    if layout not in NAMES or layout is COO:
        raise RuntimeError(
            f"{name}: layout must be sparse_csr, sparse_csc, sparse_bsr or sparse_bsc, got {layout}"
        )
    values = _values(name, values, dtype, device)
    indices = []
    for given in parts:
        t = given if isinstance(given, Tensor) else _C.tensor(given)
        t = t if isinstance(given, Tensor) or t.numel() else t.long()  # [] has no dtype
        indices.append(t.detach().to(values.device))
    for word, t in zip(_words(layout), indices, strict=True):
        _check_index(name, word, t)
    if layout in BLOCK_LAYOUTS and values.dim() < 3:
        raise RuntimeError(f"{name}: values must have a dim of blocks and two dims of their "
                           f"elements, got shape {list(values.shape)}")  # fmt: skip
    size = _inferred_size(layout, *indices, values) if size is None else _sizes(name, size)
    thorough = _checks.on if thorough is None else thorough
    _check_compressed(name, layout, *indices, values, size, thorough)
    return _finish(make(layout, indices, values, size), requires_grad, pinned)


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A tensor of layout sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.

    Arguments:
        compressed_indices: where each row (column, for csc and bsc) begins among the values, and
            where the last one ends.
        plain_indices: the column (row) of each value.
        values: the numbers, or blocks of them.
        size: the whole tensor's sizes; None finds the smallest that fit.
        dtype, device: of the values; None takes those that are given.
        pin_memory: put it into page-locked memory.
        requires_grad: record what is done with it.
        check_invariants: check all that the layout promises, not only what memory needs.
        layout: one of the four.

    Example:
        >>> rl.sparse_compressed_tensor(
        ...     [0, 1, 2], [1, 0], [5.0, 6.0], (2, 2), layout=rl.sparse_csr
        ... ).to_dense()
        tensor([[0., 5.],
                [6., 0.]])
    """
    return _compressed(
        "sparse_compressed_tensor", layout, (compressed_indices, plain_indices), values, size,
        dtype, device, pin_memory, requires_grad, check_invariants,
    )  # fmt: skip


def _compressed_of(name: str) -> Callable[..., SparseTensor]:
    """The function that makes tensors of one layout, whose indices have names of their own."""
    layout = getattr(_C, name.removesuffix("_tensor"))
    words = _words(layout)
    rest = list(inspect.signature(sparse_compressed_tensor).parameters.values())[2:]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = [inspect.Parameter(w, kind, annotation="Any") for w in words]
    kept = first + [p.replace(annotation="Any") for p in rest if p.name != "layout"]
    signature = inspect.Signature(kept, return_annotation="Tensor")

    def function(*args: Any, **kwargs: Any) -> SparseTensor:
        if kwargs.pop("layout", layout) not in (layout, None):
            raise RuntimeError(f"{name}: makes tensors of layout {NAMES[layout]} only")
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}. Accepted: {name}{signature}") from None
        bound.apply_defaults()
        given = bound.arguments
        return _compressed(
            name, layout, (given[words[0]], given[words[1]]), given["values"], given["size"],
            given["dtype"], given["device"], given["pin_memory"], given["requires_grad"],
            given["check_invariants"],
        )  # fmt: skip

    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in kept} | {"return": "Tensor"}
    function.__doc__ = _described(name, layout, words)
    return function


def _described(name: str, layout: Any, words: tuple[str, str]) -> str:
    """The docstring of one layout's function; the rest of it stands at the general one."""
    rows, columns = ("row", "column") if layout in ROW_LAYOUTS else ("column", "row")
    value, kind = ("[[[5.0]], [[6.0]]]", "blocks") if layout in BLOCK_LAYOUTS else (
        "[5.0, 6.0]", "numbers")  # fmt: skip
    general = inspect.cleandoc(str(sparse_compressed_tensor.__doc__))  # 3.13 has done so already
    options = general.partition("\n    size:")[2].partition("\n    layout:")[0]
    return f"""A tensor of layout {NAMES[layout]}: {words[0]}, {words[1]}, values.

Arguments:
    {words[0]}: where each {rows} begins among the values, and where the last one ends.
    {words[1]}: the {columns} of each value.
    values: the {kind}.
    size:{options}

Example:
    >>> rl.{name}([0, 1, 2], [1, 0], {value}, (2, 2)).to_dense()
    tensor([[0., {"5" if layout in ROW_LAYOUTS else "6"}.],
            [{"6" if layout in ROW_LAYOUTS else "5"}., 0.]])
"""


sparse_csr_tensor = _compressed_of("sparse_csr_tensor")
sparse_csc_tensor = _compressed_of("sparse_csc_tensor")
sparse_bsr_tensor = _compressed_of("sparse_bsr_tensor")
sparse_bsc_tensor = _compressed_of("sparse_bsc_tensor")


def _sparse_coo_tensor_unsafe(*args: Any, **kwargs: Any) -> SparseTensor:
    """sparse_coo_tensor; here it checks its indices all the same."""
    return sparse_coo_tensor(*args, **kwargs)


def rebuild(layout: Any, data: Sequence[Any]) -> SparseTensor:
    """What a pickled sparse tensor calls."""
    if layout is COO:
        indices, values, size = data[:3]
        made = sparse_coo_tensor(
            indices,
            values.detach(),
            size,
            is_coalesced=bool(data[3:] and data[3]),
            check_invariants=True,
        )
    else:
        compressed, plain, values, size = data
        made = sparse_compressed_tensor(compressed, plain, values.detach(), size, layout=layout)
    return made.requires_grad_(values.requires_grad)
