"""Functions of single elements: the core's, by the standard's names and rules of promotion."""

from rushlight import _C
from rushlight._C import Tensor

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


def promoted(*arrays):
    """Numbers become 0-d tensors of the other operand's dtype; 0-d tensors count as all others."""
    tensors = [a for a in arrays if isinstance(a, Tensor)]
    if not tensors:
        raise TypeError("at least one argument must be a tensor")
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = _C.promote_types(dtype, t.dtype)
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
        common = _C.promote_types(common, a.dtype)
    return [a.to(common) for a in made]


def _unary(name, core):
    f = getattr(_C, core)

    def function(x, /):
        return f(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of each element."
    return function


def _binary(name, core):
    f = getattr(_C, core)

    def function(x1, x2, /):
        return f(*promoted(x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of each pair of elements."
    return function


def _whole(name):
    f = getattr(_C, name)

    def function(x, /):
        return f(x) if x.is_floating_point() or x.is_complex() else x.clone()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of each element; integers stay."
    return function


globals().update({name: _unary(name, core) for name, core in _UNARY.items()})
globals().update({name: _binary(name, core) for name, core in _BINARY.items()})
globals().update({name: _whole(name) for name in _SAME_FOR_INTEGERS})


def _round(x, /):
    """Each part to the nearest integer, ties to even."""
    if x.is_complex():
        return _C.complex(x.real.round(), x.imag.round())
    return x.round() if x.is_floating_point() else x.clone()


globals()["round"] = _round


def clip(x, /, min=None, max=None):
    """x within [min, max], in x's dtype."""
    for bound in (min, max):
        if bound is not None and not isinstance(bound, Tensor):
            continue
    result = x
    if min is not None:
        low = min if isinstance(min, Tensor) else _C.full((), min, dtype=x.dtype, device=x.device)
        result = _C.maximum(result, low.to(x.dtype))
    if max is not None:
        high = max if isinstance(max, Tensor) else _C.full((), max, dtype=x.dtype, device=x.device)
        result = _C.minimum(result, high.to(x.dtype))
    return x.clone() if result is x else result


def conj(x, /):
    """The conjugate of each element."""
    return x.conj().resolve_conj()


def real(x, /):
    """The real part."""
    return x.real if x.is_complex() else x


def imag(x, /):
    """The imaginary part."""
    return x.imag if x.is_complex() else _C.zeros_like(x)


def sign(x, /):
    """-1, 0 or 1; of complex numbers x / |x|; nan stays nan."""
    found = _C.sgn(x)
    return _C.where(x.isnan(), x, found) if x.is_floating_point() else found


def square(x, /):
    """x times x, in x's dtype."""
    return x * x
