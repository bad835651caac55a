"""Functions as __torch_dispatch__ is given them, and tensors that only wrap others."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from rushlight import _C

# What Python's operators are called as ops; reflected ones are functions of (self, other) as well.
_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "rsub", "__mul__": "mul",
    "__rmul__": "mul", "__truediv__": "div", "__floordiv__": "floor_divide", "__mod__": "remainder",
    "__pow__": "pow", "__matmul__": "matmul", "__neg__": "neg", "__abs__": "abs",
    "__invert__": "bitwise_not", "__and__": "bitwise_and", "__or__": "bitwise_or",
    "__xor__": "bitwise_xor", "__lt__": "lt", "__le__": "le", "__eq__": "eq", "__ne__": "ne",
    "__gt__": "gt", "__ge__": "ge", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_",
    "__itruediv__": "div_", "__ifloordiv__": "floor_divide_", "__imod__": "remainder_",
    "__ipow__": "pow_", "__iand__": "bitwise_and_", "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_", "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}  # fmt: skip


@functools.cache
def function_for(op: str) -> Any:
    """`ops.aten.<op>`; of an operator that has no function there (`x[i]`), the method."""
    from rushlight.ops import _of_the_package

    name = _OPERATORS.get(op, op)
    if "::" in name:
        from rushlight._library.operators import find_overload

        return find_overload(name)
    return _of_the_package(name)


# Properties that a wrapper answers for the device it stands for.
_ANSWERS = ("device", "is_cpu", "is_cuda", "is_meta")


def make_wrapper_subclass(
    cls: type, size: Sequence[int], strides: Sequence[int] | None = None,
    storage_offset: int | None = None, memory_format: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None, dispatch_device: bool = False,
    dispatch_layout: bool = False, _extra_dispatch_keys: Any = None,
    storage_size: int | None = None,
) -> _C.Tensor:  # fmt: skip
    """An object of cls with sizes, a dtype and a device, and no memory: what it is made of are
    attributes of its own, and cls.__torch_dispatch__ runs the operators that get it."""
    if not hasattr(cls, "__torch_dispatch__"):
        raise RuntimeError(
            f"_make_wrapper_subclass: {cls.__name__} has no __torch_dispatch__, and nothing could "
            "be done with its objects"
        )
    import rushlight

    if strides is None:
        meta = rushlight.empty(tuple(size), dtype=dtype, device="meta")
    else:
        meta = rushlight.empty_strided(tuple(size), tuple(strides), dtype=dtype, device="meta")
    wrapper = _C.Tensor._make_subclass(cls, meta, requires_grad)
    wrapper.__dict__["_wrapper_device"] = rushlight.device(device or rushlight.get_default_device())
    for name in _ANSWERS:
        if getattr(cls, name) is getattr(_C.Tensor, name):
            setattr(cls, name, _answer(name))
    return wrapper


def _answer(name):
    """The property of a wrapper: the core believes that it lies on meta, where nothing has
    memory."""
    plain = getattr(_C.Tensor, name)

    def get(self):
        device = self.__dict__.get("_wrapper_device")
        if device is None:
            return plain.__get__(self)
        return device if name == "device" else device.type == name.removeprefix("is_")

    return property(get)
