"""PyTorch's first functions for conversions, one per dtype."""

from rushlight import _C

__all__ = [
    "_cast_Byte",
    "_cast_Char",
    "_cast_Double",
    "_cast_Float",
    "_cast_Half",
    "_cast_Int",
    "_cast_Long",
    "_cast_Short",
]


def _cast(name, dtype):
    def cast(input, non_blocking=False):
        return input.to(dtype, non_blocking)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The tensor as {dtype}."
    return cast


_cast_Byte, _cast_Char = _cast("_cast_Byte", _C.uint8), _cast("_cast_Char", _C.int8)
_cast_Short, _cast_Int = _cast("_cast_Short", _C.int16), _cast("_cast_Int", _C.int32)
_cast_Long, _cast_Half = _cast("_cast_Long", _C.int64), _cast("_cast_Half", _C.float16)
_cast_Float, _cast_Double = _cast("_cast_Float", _C.float32), _cast("_cast_Double", _C.float64)
