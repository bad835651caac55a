"""uint16, uint32 and uint64 in the functions of the standard. The core stores, compares and moves
them; arithmetic goes through int64, whose bits wrap round in the same way."""

from rushlight import _C

_BITS = {_C.uint8: 8, _C.uint16: 16, _C.uint32: 32, _C.uint64: 64}
_SIGNED = {_C.int8: 8, _C.int16: 16, _C.int32: 32, _C.int64: 64}
_BY_BITS = {bits: dtype for dtype, bits in _SIGNED.items()}
WIDE = (_C.uint16, _C.uint32, _C.uint64)
_SIGN = -(2**63)


def promote(a, b):
    """The standard's promotion of two dtypes."""
    if a == b:
        return a
    if a in _BITS and b in _BITS:
        return a if _BITS[a] > _BITS[b] else b
    for unsigned, signed in ((a, b), (b, a)):
        if unsigned in _BITS and signed in _SIGNED:
            bits = max(2 * _BITS[unsigned], _SIGNED[signed])
            if bits > 64:
                raise TypeError(f"{unsigned} and {signed} have no common dtype")
            return _BY_BITS[bits]
    return _C.promote_types(a, b)


def to_int64(x):
    """x as int64: the same numbers, or for uint64 the same bits."""
    return x.view(_C.int64) if x.dtype == _C.uint64 else x.to(_C.int64)


def from_int64(x, dtype):
    """The low bits as another dtype."""
    return x.view(_C.uint64) if dtype == _C.uint64 else x.to(dtype)


def ordered(x):
    """int64 numbers in the order of the unsigned ones."""
    return to_int64(x) ^ _SIGN if x.dtype == _C.uint64 else x.to(_C.int64)


def _right_shift(a, b):
    """a >> b with zeros from the left."""
    kept = _C.where(b == 0, -1, ~(_SIGN >> (b - 1).clamp(min=0)))
    return (a >> b) & kept


def _below(a, b):
    return (a ^ _SIGN) < (b ^ _SIGN)


def _divide(a, b):
    """The quotient of the bits of two uint64 (Warren, Hacker's Delight, 9.3)."""
    safe = _C.where(b > 0, b, 1)
    one = _C.ones_like(a)
    q = _C.div(_right_shift(a, one), safe, rounding_mode="floor") << 1
    q = q + (~_below(a - q * safe, safe)).to(_C.int64)
    return _C.where(b > 0, q, (~_below(a, b)).to(_C.int64))


def _power(a, b):
    result = _C.ones_like(a + b)
    base = a.expand(result.shape)
    left = b.expand(result.shape)
    for _ in range(64):
        if not (left != 0).any():
            break
        result = _C.where((left & 1) == 1, result * base, result)
        base, left = base * base, _right_shift(left, _C.ones_like(left))
    return result


def _floor_divide(a, b, dtype):
    return _divide(a, b) if dtype == _C.uint64 else _C.div(a, b, rounding_mode="floor")


_ARITHMETIC = {
    "add": lambda a, b, _: a + b,
    "subtract": lambda a, b, _: a - b,
    "multiply": lambda a, b, _: a * b,
    "pow": lambda a, b, _: _power(a, b),
    "bitwise_and": lambda a, b, _: a & b,
    "bitwise_or": lambda a, b, _: a | b,
    "bitwise_xor": lambda a, b, _: a ^ b,
    "bitwise_left_shift": lambda a, b, _: a << b,
    "bitwise_right_shift": lambda a, b, _: _right_shift(a, b),
    "floor_divide": _floor_divide,
    "remainder": lambda a, b, d: a - _floor_divide(a, b, d) * b,
}
_ORDER = {
    "less": _C.lt, "less_equal": _C.le, "greater": _C.gt, "greater_equal": _C.ge,
    "equal": _C.eq, "not_equal": _C.ne,
}  # fmt: skip
_UNARY = {
    "abs": lambda x: x,
    "positive": lambda x: x,
    "negative": lambda x: -x,
    "bitwise_invert": lambda x: ~x,
    "sign": lambda x: (x != 0).to(_C.int64),
    "square": lambda x: x * x,
}


def binary(name, a, b):
    """The result for two tensors of one wide unsigned dtype, or None where the core does it."""
    if name in _ARITHMETIC:
        return from_int64(_ARITHMETIC[name](to_int64(a), to_int64(b), a.dtype), a.dtype)
    if name in _ORDER:
        return _ORDER[name](ordered(a), ordered(b))
    if name in ("maximum", "minimum"):
        larger = ordered(a) > ordered(b)
        return _C.where(larger if name == "maximum" else ~larger, a, b)
    return None


def unary(name, x):
    """The result for a tensor of a wide unsigned dtype, or None where the core does it."""
    if name not in _UNARY:
        return None
    found = from_int64(_UNARY[name](to_int64(x)), x.dtype)
    return found.clone() if name in ("abs", "positive") else found
