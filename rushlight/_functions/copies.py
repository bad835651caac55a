"""Views in memory of their own, and pieces that PyTorch does not track as views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._functions.out import write_out, write_outs
from rushlight._names.publish import publish

__all__ = [
    "_conj",
    "_conj_physical",
    "_make_dual_copy",
    "_neg_view",
    "alias_copy",
    "as_strided_copy",
    "as_strided_scatter",
    "detach_copy",
    "diagonal_copy",
    "expand_copy",
    "narrow_copy",
    "permute_copy",
    "select_copy",
    "slice_copy",
    "split_copy",
    "split_with_sizes_copy",
    "squeeze_copy",
    "t_copy",
    "transpose_copy",
    "unbind_copy",
    "unfold_copy",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze_copy",
    "view_as_complex_copy",
    "view_as_real_copy",
    "view_copy",
]


def _copied(name, view):
    """The function that gives a copy of what a function of views gives."""

    def copied(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        found = view(*args, **kwargs)
        return write_out(name, found.clone(memory_format=_C.contiguous_format), out)

    return _named(name, copied)


def _all_copied(name, views):
    """The same for a function that gives several views."""

    def copied(
        *args: Any, out: Sequence[Tensor] | None = None, **kwargs: Any
    ) -> tuple[Tensor, ...]:
        found = views(*args, **kwargs)
        return write_outs(name, tuple(v.clone() for v in found), out)

    return _named(name, copied)


def _named(name, function):
    function.__name__ = function.__qualname__ = name
    what = "tensors" if "Sequence" in str(function.__annotations__["out"]) else "a tensor"
    function.__doc__ = (
        f"`{name.removesuffix('_copy')}`, in memory of its own.\n\nArguments:\n"
        f"    out: {what} to write the result to.\n"
    )
    return function


def _slice(input, dim=0, start=None, end=None, step=1):
    index = [slice(None)] * input.ndim
    index[dim] = slice(start, end, step)
    return input[tuple(index)]


def _same(input):
    return input


def _narrowed(input, dim, start, length):
    return input.narrow_copy(dim, start, length)


alias_copy = _copied("alias_copy", _same)
expand_copy = _copied("expand_copy", Tensor.expand)
slice_copy = _copied("slice_copy", _slice)
unfold_copy = _copied("unfold_copy", Tensor.unfold)
view_copy = _copied("view_copy", Tensor.view)
split_with_sizes_copy = _all_copied("split_with_sizes_copy", Tensor.split)
split_copy = _all_copied("split_copy", Tensor.split)
_make_dual_copy = _copied("_make_dual_copy", _C._make_dual)
as_strided_copy = _copied("as_strided_copy", _C.as_strided)
detach_copy = _copied("detach_copy", _C.detach)
diagonal_copy = _copied("diagonal_copy", _C.diagonal)
narrow_copy = _copied("narrow_copy", _narrowed)
permute_copy = _copied("permute_copy", _C.permute)
select_copy = _copied("select_copy", _C.select)
squeeze_copy = _copied("squeeze_copy", _C.squeeze)
t_copy = _copied("t_copy", _C.t)
transpose_copy = _copied("transpose_copy", _C.transpose)
unbind_copy = _all_copied("unbind_copy", _C.unbind)
unsqueeze_copy = _copied("unsqueeze_copy", _C.unsqueeze)
view_as_complex_copy = _copied("view_as_complex_copy", _C.view_as_complex)
view_as_real_copy = _copied("view_as_real_copy", _C.view_as_real)


def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int],
                       storage_offset: int | None = None) -> Tensor:  # fmt: skip
    """input with src written into its view of that geometry.

    Arguments:
        input: the tensor to copy.
        src: what is written.
        size, stride, storage_offset: the view that it is written to.

    Example:
        >>> rl.as_strided_scatter(rl.zeros(4), rl.ones(2), (2,), (2,), storage_offset=1)
        tensor([0., 1., 0., 1.])
    """
    if any(step == 0 and n > 1 for step, n in zip(input.stride(), input.shape, strict=True)):
        input = input.contiguous()  # each element gets a place of its own
    start = input.storage_offset()
    offset = start if storage_offset is None else storage_offset
    if input.is_contiguous() and not start:
        result = input.clone(memory_format=_C.contiguous_format)
        result.as_strided(size, stride, offset).copy_(src)
        return result
    held = input.untyped_storage().nbytes() // input.element_size()
    memory = input.as_strided((held,), (1,), 0).clone()  # the view may lie between the elements
    memory.as_strided(size, stride, offset).copy_(src)
    return memory.as_strided(input.shape, input.stride(), start)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Another name of `chunk`; PyTorch does not track that the pieces are views.

    Arguments:
        input: the tensor to cut.
        chunks: how many pieces.
        dim: along which dim.
    """
    return input.chunk(chunks, dim)


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Another name of `split`; PyTorch does not track that the pieces are views.

    Arguments:
        input: the tensor to cut.
        split_size: how long each piece is.
        dim: along which dim.
    """
    return input.split(split_size, dim)


def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Another name of `split` for a list of sizes; PyTorch does not track the pieces as views.

    Arguments:
        input: the tensor to cut.
        split_sizes: how long the pieces are.
        dim: along which dim.

    Example:
        >>> rl.unsafe_split_with_sizes(rl.arange(3), [1, 2], dim=0)
        (tensor([0]), tensor([1, 2]))
    """
    return input.split(list(split_sizes), dim)


def _conj(self):
    """conj."""
    return self.conj()


def _conj_physical(self):
    """The conjugate in memory of its own."""
    return self.conj().resolve_conj()


def _neg_view(self):
    """-self."""
    return -self


publish(
    globals(),
    "",
    "as_strided_scatter unsafe_chunk unsafe_split unsafe_split_with_sizes".split(),
)
