"""NestedTensor: a batch of tensors that differ in one size.

It derives from Tensor, so that programs see one; to the core it has a dtype and a device, but no
memory (csrc/core/memoryless.h). What it holds is an ordinary tensor, its values, in which the
sequences lie one behind the other along one dim, and a Ragged that says where. Operators come to
`__torch_function__`; the rules that run them (_rules.py and its neighbours) work on the values.
Gradients flow through the values (rushlight/_tensor/of_values.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor
from rushlight._tensor.of_values import TensorOfValues
from rushlight.nested._ragged import Ragged


class NestedTensor(TensorOfValues):
    """A batch of tensors that differ in one size. Made by the functions of rushlight.nested."""

    # The values have all dims but the batch, the ragged one packed.
    _ragged: Ragged
    _ragged_idx: int  # which dim is ragged, 1 or more
    _jagged: bool  # PyTorch's layout: jagged, or strided

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        from rushlight.nested._rules import dispatch

        return dispatch(func, args, kwargs or {})

    # What kind of tensor it is.

    is_nested = property(lambda self: True, doc="True.")

    @property
    def layout(self) -> _C.layout:
        """jagged or strided, as it was made."""
        return _C.jagged if self._jagged else _C.strided

    @property
    def shape(self) -> Any:
        """The sizes; that of the ragged dim is a NestedInt, equal for equal lengths."""
        return NestedSize(sizes_of(self))

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or one of them; that of the ragged dim is a NestedInt."""
        if dim is None:
            return self.shape
        at = dim_of("size", self, dim)
        if at == self._ragged_idx and not self._jagged:
            raise RuntimeError(f"size: dim {dim} is ragged: its sizes differ")
        return sizes_of(self)[at]

    def numel(self) -> int:
        """How many elements there are."""
        if self._ragged.is_whole:
            return self._vals.numel()
        rows = max(self._vals.shape[self._ragged_idx - 1], 1)
        return self._vals.numel() // rows * sum(self._ragged.counts)

    nelement = numel

    def stride(self, dim: Any = None) -> NoReturn:
        """Raises: the step over sequences depends on their lengths."""
        raise RuntimeError("stride: a nested tensor has none; its values() have")

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the values are, and sequences follow one another without holes."""
        return self._ragged_idx == 1 and self._vals.is_contiguous() and self._ragged.is_whole

    def storage_offset(self) -> int:
        """That of the values."""
        return self._vals.storage_offset()

    def data_ptr(self) -> int:
        """That of the values."""
        return self._vals.data_ptr()

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.numel() * self._vals.element_size()

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
        return self.transpose(-2, -1)

    def values(self) -> Tensor:
        """The tensor in which all sequences lie; in layout strided as one dim."""
        values = self._vals.view_as(self._vals) if self._vals.requires_grad else self._vals
        return values if self._jagged else contiguous(self)._vals.reshape(-1)

    def offsets(self) -> Tensor:
        """Where sequences begin in the values, and the end."""
        return self._ragged.offsets

    def lengths(self) -> Tensor | None:
        """How long they are where there are holes between them, else None."""
        return self._ragged.lengths

    def to_padded_tensor(self, padding: Any, output_size: Any = None, out: Any = None) -> Tensor:
        """A tensor of one size, filled up with `padding` behind shorter parts."""
        found = padded(self, padding, output_size)
        if out is None:
            return found
        from rushlight._functions.out import write_out

        return write_out("to_padded_tensor", found, out)

    _values = property(lambda self: self._vals)
    _offsets = property(lambda self: self._ragged.offsets)
    _lengths = property(lambda self: self._ragged.lengths)
    _max_seqlen = property(lambda self: self._ragged.longest)
    _min_seqlen = property(lambda self: min(self._ragged.counts, default=0))

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raises: NumPy has no ragged arrays."""
        raise RuntimeError("numpy: a nested tensor is no array; use values() or to_padded_tensor()")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise RuntimeError("numpy: a nested tensor is no array; use values() or to_padded_tensor()")

    def tolist(self) -> list[Any]:
        """A list of the lists of all parts."""
        return [part.tolist() for part in self.unbind()]

    def _like(self, values: Tensor) -> NestedTensor:
        return with_values(self, values)

    def _values_at(self, op: str, given: Any) -> Tensor:
        return values_like(op, self, given)

    def _plain(self) -> Tensor:
        return contiguous(self)._vals

    @property  # type: ignore[override]
    def data(self) -> NestedTensor:
        """The tensor, cut off from the graph."""
        return with_values(self, self._vals.detach())

    @data.setter
    def data(self, value: Any) -> None:
        self._vals.data = values_like("data", self, value)

    # Copies and texts.

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if self._jagged:
            rest = f"offsets={self._ragged.offsets!r}"
            if self.grad_fn is not None:
                rest += f", grad_fn=<{type(self.grad_fn).__name__}>"
            elif self.requires_grad:
                rest += ", requires_grad=True"
            size = "(" + ", ".join(map(str, sizes_of(self))) + ")"
            return f"NestedTensor(size={size}, {rest}, contiguous={self.is_contiguous()})"
        parts = ",\n".join(repr(part.detach()) for part in self.unbind())
        rest = ""
        if self.grad_fn is not None:
            rest = f", grad_fn=<{type(self.grad_fn).__name__}>"
        elif self.requires_grad:
            rest = ", requires_grad=True"
        return "nested_tensor([\n  " + parts.replace("\n", "\n  ") + f"\n]{rest})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        from rushlight._utils import _rebuild_nested

        values = self._vals if self._vals.is_leaf else self._vals.detach()
        ragged = self._ragged
        state = (values, ragged.offsets, ragged.lengths, self._ragged_idx, self._jagged)
        return _rebuild_nested, state

    def __deepcopy__(self, memo: Any) -> NestedTensor:
        if id(self) in memo:
            return memo[id(self)]
        memo[id(self)] = made = with_values(self, self._copied_values())
        return made

    def __len__(self) -> int:
        return len(self._ragged)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.unbind())


class NestedSize(tuple):
    """Sizes of which one is ragged; prints as Size."""

    def __repr__(self) -> str:
        from rushlight._tensor import legacy_types

        return f"{legacy_types.printed_package}.Size([{', '.join(map(repr, self))}])"

    def numel(self) -> NoReturn:
        """Raises: only the tensor knows."""
        raise RuntimeError("numel: sizes with a ragged one have none; use the tensor's numel()")


def sizes_of(x: NestedTensor) -> list[Any]:
    """The sizes of all dims."""
    sizes: list[Any] = [len(x._ragged), *x._vals.shape]
    sizes[x._ragged_idx] = x._ragged.size
    return sizes


def dim_of(op: str, x: NestedTensor, dim: int) -> int:
    """A dim, counted from the front."""
    dims = x._vals.dim() + 1
    if not isinstance(dim, int):
        raise TypeError(f"{op}: dim must be an int, got {type(dim).__name__}")
    if not -dims <= dim < dims:
        raise IndexError(f"{op}: dim {dim} is out of range for a tensor of {dims} dims")
    return dim % dims


def make(values: Tensor, ragged: Ragged, ragged_idx: int = 1, jagged: bool = True) -> NestedTensor:
    """A nested tensor of its parts, which fit together; they are not copied."""
    sizes = [len(ragged), *values.shape]
    made: NestedTensor = _C._make_memoryless(NestedTensor, sizes, values.dtype, values.device)
    made._vals, made._ragged = values, ragged.to(values.device)
    made._ragged_idx, made._jagged = ragged_idx, jagged
    return made


def with_values(x: NestedTensor, values: Tensor, ragged_idx: int | None = None) -> NestedTensor:
    """A tensor with other values and the same sequences."""
    return make(values, x._ragged, x._ragged_idx if ragged_idx is None else ragged_idx, x._jagged)


def join(parts: Sequence[Tensor], at: int, jagged: bool) -> NestedTensor:
    """A nested tensor of parts that differ in dim `at` at most, with history."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + part.shape[at])
    values = _C.cat(list(parts), at)
    offsets = _C.tensor(ends, dtype=_C.int64, device=values.device)
    return make(values, Ragged(offsets, None, ends[-1]), at + 1, jagged)


def contiguous(x: NestedTensor) -> NestedTensor:
    """The same tensor with its sequences one behind the other in contiguous values."""
    at = x._ragged_idx - 1
    if x._ragged.is_whole:
        return x if x._vals.is_contiguous() else with_values(x, x._vals.contiguous())
    rows, ragged = x._ragged.packed()
    return make(x._vals.index_select(at, rows), ragged, x._ragged_idx, x._jagged)


def values_like(op: str, x: NestedTensor, given: Any) -> Tensor:
    """The values of another tensor of the same sequences."""
    if not isinstance(given, NestedTensor):
        raise RuntimeError(f"{op}: expected a nested tensor, got a tensor of one size")
    if given._ragged_idx != x._ragged_idx or not given._ragged.same_as(x._ragged) or (
        given._vals.shape != x._vals.shape
    ):  # fmt: skip
        raise RuntimeError(
            f"{op}: the sizes {tuple(sizes_of(x))} and {tuple(sizes_of(given))} differ"
        )
    return given._vals


def rows_first(x: NestedTensor, packed: bool = True) -> tuple[Tensor, Ragged]:
    """The values with their packed dim as the first one; without holes if wanted."""
    values, ragged = x._vals, x._ragged
    if packed and not ragged.is_whole:
        rows, ragged = ragged.packed()
        values = values.index_select(x._ragged_idx - 1, rows)
    return values.movedim(x._ragged_idx - 1, 0), ragged


def padded(x: NestedTensor, padding: Any, output_size: Sequence[int] | None = None) -> Tensor:
    """A tensor of one size, with `padding` where sequences are shorter."""
    values, ragged = rows_first(x)
    if output_size is None:
        longest, rest = ragged.longest, list(values.shape[1:])
    else:
        wanted = list(output_size)
        sizes = [len(ragged), *x._vals.shape]
        sizes[x._ragged_idx] = ragged.longest
        if len(wanted) != len(sizes) or any(w < n for w, n in zip(wanted, sizes, strict=True)):
            raise RuntimeError(
                f"to_padded_tensor: output_size {tuple(wanted)} has no room for {tuple(sizes)}"
            )
        longest = wanted.pop(x._ragged_idx)
        rest = wanted[1:]
    batch = len(ragged) if output_size is None else output_size[0]
    rows = ragged.samples * longest + ragged.positions
    out = _C.full((batch * longest, *values.shape[1:]), padding, dtype=values.dtype,
                  device=values.device)  # fmt: skip
    out = out.index_copy(0, rows, values).unflatten(0, (batch, longest))
    for dim, (n, own) in enumerate(zip(rest, values.shape[1:], strict=True)):
        if n > own:
            shape = list(out.shape)
            shape[dim + 2] = n - own
            more = _C.full(shape, padding, dtype=out.dtype, device=out.device)
            out = _C.cat([out, more], dim + 2)
    return out.movedim(1, x._ragged_idx)


def from_padded(dense: Tensor, x: NestedTensor) -> Tensor:
    """Values of the sequences of x out of a tensor of one size; dims as those of x."""
    rows = dense.movedim(x._ragged_idx, 1)
    ragged = x._ragged
    at = ragged.samples * rows.shape[1] + ragged.positions
    return rows.flatten(0, 1).index_select(0, at).movedim(0, x._ragged_idx - 1)
