"""The part of Module that changes dtype, device and place of its tensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.types import Device, Self, _dtype


def parse_to(args, kwargs):
    """(device, dtype, non_blocking, memory_format) of a call of to()."""
    if len(args) > 4:
        raise TypeError(f"to() takes at most 4 positional arguments, got {len(args)}")
    rest, kwargs = list(args), dict(kwargs)
    device = dtype = None
    if "tensor" in kwargs or "other" in kwargs:
        rest.insert(0, kwargs.pop("tensor") if "tensor" in kwargs else kwargs.pop("other"))
    if rest and isinstance(rest[0], Tensor):
        like = rest.pop(0)
        device, dtype = like.device, like.dtype
    elif rest and isinstance(rest[0], _C.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], _C.dtype)):
            dtype = rest.pop(0)
    device = kwargs.pop("device", device)
    dtype = kwargs.pop("dtype", dtype)
    non_blocking = kwargs.pop("non_blocking", rest.pop(0) if rest else False)
    kwargs.pop("copy", None)
    if rest:
        rest.pop(0)  # copy, which means nothing to a module
    memory_format = kwargs.pop("memory_format", None)
    if kwargs or rest:
        unknown = ", ".join(kwargs) or repr(rest[0])
        raise TypeError(f"to(): cannot make sense of {unknown}")
    if not isinstance(non_blocking, bool):
        raise TypeError(f"to(): non_blocking must be a bool, got {non_blocking!r}")
    if dtype is not None and not isinstance(dtype, _C.dtype):
        raise TypeError(f"to(): dtype must be a dtype, got {dtype!r}")
    return None if device is None else _C.device(device), dtype, non_blocking, memory_format


class ModuleConversion:
    """dtype and device of all parameters and buffers."""

    if TYPE_CHECKING:  # of ModuleTree

        def parameters(self, recurse: bool = True) -> Iterator[Parameter]: ...

    def _apply(self, fn, recurse=True):
        """Replaces every parameter, its gradient and every buffer by fn of it, in place.

        Parameters stay the same objects, so that optimizers keep their hold of them.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for key, param in self._parameters.items():
            if param is not None:
                self._apply_to_parameter(key, param, fn)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                applied = fn(buffer)
                if is_lazy(buffer) and applied is not buffer:
                    buffer.data = applied.detach()
                else:
                    self._buffers[key] = applied
        return self

    def _apply_to_parameter(self, key, param, fn):
        with no_grad():
            applied = fn(param)
            grad = param.grad
            new_grad = None if grad is None else fn(grad)
        if is_lazy(param):
            if applied is not param:
                param.data = applied.detach()  # only dtype and device count yet
            return
        # A tensor keeps its object over a change of dtype or device; memory of a meta tensor is
        # another matter.
        if param.is_meta == applied.is_meta:
            if applied is not param:
                if grad is not None:
                    param.grad = None  # it would not fit in between
                param.data = applied
            out = param
        else:
            out = self._parameters[key] = Parameter(applied, param.requires_grad)
        if new_grad is not None and (new_grad is not grad or out.grad is not grad):
            out.grad = new_grad.requires_grad_(grad.requires_grad)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves and converts in place: to(device), to(dtype), to(tensor), memory_format=...

        Only floating point and complex tensors change their dtype.
        """
        device, dtype, non_blocking, memory_format = parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"to(): a module takes floating point or complex dtypes, got {dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "to(): complex modules are young; some modules may not work as expected",
                    stacklevel=2,
                )

        def convert(t):
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            options = {"non_blocking": non_blocking}
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            if t.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    f"to(): a meta tensor has no data to move to {device}; use to_empty(), then "
                    "fill the parameters"
                )
            return t.to(device or t.device, wanted or t.dtype, **options)

        return self._apply(convert)

    def to_empty(self, *, device: str | Device | int, recurse: bool = True) -> Self:
        """Moves to the device without copying: the new memory holds anything."""
        return self._apply(lambda t: _C.empty_like(t, device=device), recurse)

    def cuda(self, device: int | Device | None = None) -> Self:
        """Moves to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def cpu(self) -> Self:
        """Moves to the CPU."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type: _dtype | str) -> Self:
        """Converts all parameters and buffers to a dtype, integers too."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Converts floating point parameters and buffers to float32."""
        return self._to_dtype(_C.float32)

    def double(self) -> Self:
        """Converts floating point parameters and buffers to float64."""
        return self._to_dtype(_C.float64)

    def half(self) -> Self:
        """Converts floating point parameters and buffers to float16."""
        return self._to_dtype(_C.float16)

    def bfloat16(self) -> Self:
        """Converts floating point parameters and buffers to bfloat16."""
        return self._to_dtype(_C.bfloat16)

    def _to_dtype(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def share_memory(self) -> Self:
        """Moves the tensors to memory that other processes can share."""
        return self._apply(lambda t: t.share_memory_())

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says for every parameter whether gradients are wanted."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or sets them to zero."""
        if set_to_none:
            for p in self.parameters():
                p.grad = None
        else:
            from rushlight.utils._foreach_utils import _zero_grads

            _zero_grads(self.parameters())
