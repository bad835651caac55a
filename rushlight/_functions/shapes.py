"""Shapes, dims and places of elements."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Tensor
from rushlight._functions.out import write_out
from rushlight._names.publish import publish
from rushlight.types import Device, _dtype, _layout

__all__ = [
    "_debug_has_internal_overlap",
    "_dim_arange",
    "_has_compatible_shallow_copy_type",
    "_reshape_from_tensor",
    "_resize_output_",
    "_shape_as_tensor",
    "empty_permuted",
    "nonzero_static",
]


def _shape_as_tensor(self):
    """The shape as a tensor of integers."""
    return _C.tensor(list(self.shape), dtype=_C.int64)


def _reshape_from_tensor(self, shape):
    """reshape to the sizes in a tensor."""
    return self.reshape(shape.tolist())


def _dim_arange(like, dim):
    """0, 1, ... up to the size of a dim."""
    return _C.arange(like.shape[dim], device=like.device)


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], *,
                   dtype: _dtype | None = None, layout: _layout | None = None,
                   device: Device = None, requires_grad: bool = False,
                   pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Uninitialised, with the dims in memory in another order, from the outermost.

    Arguments:
        size: the shape.
        physical_layout: the dims in the order of memory, the outermost first.
        dtype, layout, device, requires_grad, pin_memory: as for empty.

    Example:
        >>> rl.empty_permuted((2, 3, 4), (0, 2, 1), dtype=rl.float64).stride()
        (12, 1, 3)
    """
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(f"empty_permuted: physical_layout must be an order of the {len(size)} "
                           f"dims, got {tuple(physical_layout)}")  # fmt: skip
    stride, step = [1] * len(size), 1
    for d in reversed(physical_layout):
        stride[d] = step
        step *= max(1, size[d])
    return _C.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad,
                            pin_memory=pin_memory)  # fmt: skip


def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """Where elements are not zero, cut or filled up to `size` rows.

    Arguments:
        input: a tensor.
        size: rows of the result.
        fill_value: what rows that are left hold.
        out: a tensor to write the result into.

    Example:
        >>> rl.nonzero_static(rl.tensor([0, 1, 2]), size=3, fill_value=-7)
        tensor([[ 1],
                [ 2],
                [-7]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative, got {size}")
    found = input.nonzero()[:size]
    if found.shape[0] < size:
        rest = found.new_full((size - found.shape[0], found.shape[1]), fill_value)
        found = _C.cat([found, rest])
    return write_out("nonzero_static", found, out)


def _resize_output_(self, size, device):
    """resize_, for a tensor on that device."""
    if self.device != _C.device(device):
        raise _C.DeviceError(f"_resize_output_: the tensor is on {self.device}, not on {device}")
    return self.resize_(size)


def _debug_has_internal_overlap(self):
    """0: no two elements share memory; 1: some do; 2: hard to say."""
    if any(n > 1 and s == 0 for n, s in zip(self.shape, self.stride(), strict=True)):
        return 1
    dense = sorted((s, n) for n, s in zip(self.shape, self.stride(), strict=True) if n > 1)
    reach = 1
    for stride, size in dense:
        if stride < reach:
            return 2
        reach = stride * (size - 1) + reach
    return 0


def _has_compatible_shallow_copy_type(input, from_):
    """Whether set_() could give one tensor the memory of the other."""
    return isinstance(input, Tensor) and isinstance(from_, Tensor)


publish(globals(), "", ["empty_permuted", "nonzero_static"])
