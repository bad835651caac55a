"""Functions of single elements: the core's, by the standard's names and rules of promotion."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.array_api import _unsigned
from rushlight.array_api._unsigned import promote

_UNARY = {
    name: name
    for name in """abs acos acosh asin asinh atan atanh cos cosh exp expm1 isfinite
isinf isnan log log1p log2 log10 logical_not reciprocal sin sinh sqrt tan tanh signbit""".split()
}
_UNARY |= {"bitwise_invert": "bitwise_not", "negative": "neg", "positive": "positive"}
_BINARY = {
    name: name
    for name in """add atan2 bitwise_and bitwise_or bitwise_xor copysign
floor_divide hypot logaddexp logical_and logical_or logical_xor nextafter remainder""".split()
}
_BINARY |= {
    "bitwise_left_shift": "bitwise_left_shift", "bitwise_right_shift": "bitwise_right_shift",
    "divide": "div", "equal": "eq", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "maximum": "maximum", "minimum": "minimum", "multiply": "mul",
    "not_equal": "ne", "pow": "pow", "subtract": "sub",
}  # fmt: skip
_SAME_FOR_INTEGERS = ("ceil", "floor", "trunc", "round")
__all__ = [*_UNARY, *_BINARY, *_SAME_FOR_INTEGERS, "clip", "conj", "imag", "real", "sign", "square"]


def promoted(*arrays: Tensor) -> list[Tensor]:
    """Numbers become 0-d tensors of the other operand's dtype; 0-d tensors count as all others."""
    tensors = [a for a in arrays if isinstance(a, Tensor)]
    if not tensors:
        raise TypeError("at least one argument must be a tensor")
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = promote(dtype, t.dtype)
    made = []
    for a in arrays:
        if not isinstance(a, Tensor):
            kind = dtype
            if isinstance(a, complex) and not dtype.is_complex:
                kind = _C.complex128 if dtype == _C.float64 else _C.complex64
            elif isinstance(a, float) and not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(f"a float does not go together with a tensor of {dtype}")
            a = _C.full((), a, dtype=kind, device=tensors[0].device)
        made.append(a)
    common = made[0].dtype
    for a in made[1:]:
        common = promote(common, a.dtype)
    return [a.to(common) for a in made]


def _unary(name, core):
    f = getattr(_C, core)

    def function(x: Tensor, /) -> Tensor:
        found = _unsigned.unary(name, x) if x.dtype in _unsigned.WIDE else None
        return f(x) if found is None else found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of each element."
    return function


def _binary(name, core):
    f = getattr(_C, core)

    def function(x1: Any, x2: Any, /) -> Tensor:
        x1, x2 = promoted(x1, x2)
        found = _unsigned.binary(name, x1, x2) if x1.dtype in _unsigned.WIDE else None
        return f(x1, x2) if found is None else found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of each pair of elements."
    return function


def _whole(name):
    f = getattr(_C, name)

    def function(x: Tensor, /) -> Tensor:
        return f(x) if x.is_floating_point() or x.is_complex() else x.clone()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of each element; integers stay."
    return function


globals().update({name: _unary(name, core) for name, core in _UNARY.items()})
globals().update({name: _binary(name, core) for name, core in _BINARY.items()})
globals().update({name: _whole(name) for name in _SAME_FOR_INTEGERS})


def _round(x: Tensor, /) -> Tensor:
    """Each part to the nearest integer, ties to even."""
    if x.is_complex():
        return _C.complex(x.real.round(), x.imag.round())
    return x.round() if x.is_floating_point() else x.clone()


globals()["round"] = _round


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x within [min, max], in x's dtype."""
    result = x
    if min is not None:
        result = globals()["maximum"](result, _bound(min, x))
    if max is not None:
        result = globals()["minimum"](result, _bound(max, x))
    return x.clone() if result is x else result


def _bound(bound, x):
    """A bound of clip in x's dtype; what lies outside its range bounds nothing."""
    if not isinstance(bound, Tensor):
        return _C.full((), bound, dtype=x.dtype, device=x.device)
    if bound.dtype == x.dtype or x.dtype.is_floating_point or bound.dtype.is_floating_point:
        return bound.to(x.dtype)
    if bound.dtype == _C.uint64:  # as large as int64 can tell
        wide = _unsigned.to_int64(bound)
        bound = _C.where(wide < 0, _C.iinfo(_C.int64).max, wide)
    low, high = _C.iinfo(x.dtype).min, _C.iinfo(x.dtype).max
    inside = bound.to(_C.int64).clamp(low, high if high < 2**63 else None)
    return inside.to(x.dtype)


def conj(x: Tensor, /) -> Tensor:
    """The conjugate of each element."""
    return x.conj().resolve_conj()


def real(x: Tensor, /) -> Tensor:
    """The real part."""
    return x.real if x.is_complex() else x


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part."""
    return x.imag if x.is_complex() else _C.zeros_like(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; of complex numbers x / |x|; nan stays nan."""
    if x.dtype in _unsigned.WIDE:
        return _unsigned.unary("sign", x)
    found = _C.sgn(x)
    return _C.where(x.isnan(), x, found) if x.is_floating_point() else found


def square(x: Tensor, /) -> Tensor:
    """x times x, in x's dtype."""
    return _unsigned.unary("square", x) if x.dtype in _unsigned.WIDE else x * x
