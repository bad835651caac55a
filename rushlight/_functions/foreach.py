"""Operators over each tensor of a list: _foreach_mul_ and its relatives."""

from rushlight import _C, linalg
from rushlight._C import Tensor

_OF_ONE = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p
log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
_OF_TWO = "add clamp_max clamp_min div maximum minimum mul sub".split()


def _items(x, count):
    """One item per tensor of the list."""
    return list(x) if isinstance(x, tuple | list) else [x] * count


def _in_place(op):
    """The method that writes into its tensor; clamp_min_ takes numbers too, as maximum_ does."""
    if op in ("maximum", "minimum"):
        return Tensor.clamp_min_ if op == "maximum" else Tensor.clamp_max_
    return getattr(Tensor, op + "_")


def _of_one(method):
    return lambda self: [method(t) for t in self]


def _of_two(method):
    def run(self, other, **kwargs):
        pairs = zip(self, _items(other, len(self)), strict=True)
        return [method(a, b, **kwargs) for a, b in pairs]

    return run


def _of_three(method):
    def run(self, tensor1, tensor2, value=1):
        values = value.tolist() if isinstance(value, Tensor) and value.ndim else value
        rows = zip(self, tensor1, tensor2, _items(values, len(self)), strict=True)
        return [method(a, b, c, value=v) for a, b, c, v in rows]

    return run


def _lerp(method):
    def run(self, tensors1, weight):
        rows = zip(self, tensors1, _items(weight, len(self)), strict=True)
        return [method(a, b, w) for a, b, w in rows]

    return run


def _foreach_norm(self, ord=2, dtype=None):
    """The norm of each tensor."""
    return [linalg.vector_norm(t, ord, dtype=dtype) for t in self]


def _foreach_max(self):
    """The largest element of each tensor."""
    return [t.max() for t in self]


def _foreach_pow(self, exponent):
    """Powers; the base may be one number."""
    bases = _items(self, len(exponent) if isinstance(exponent, tuple | list) else 1)
    exponents = _items(exponent, len(self) if isinstance(self, tuple | list) else 1)
    return [_C.pow(a, b) for a, b in zip(bases, exponents, strict=True)]


def _define(name, run, doc):
    """A name of this module; those that end with _ return nothing."""

    def in_place(*args, **kwargs):
        run(*args, **kwargs)

    function = in_place if name.endswith("_") else run
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    globals()[name] = function


for _kind, _ops in ((_of_one, _OF_ONE), (_of_two, _OF_TWO), (_of_three, ["addcdiv", "addcmul"]),
                    (_lerp, ["lerp"])):  # fmt: skip
    for _op in _ops:
        _define(f"_foreach_{_op}", _kind(getattr(Tensor, _op)), f"{_op} of each tensor of a list.")
        _define(f"_foreach_{_op}_", _kind(_in_place(_op)), f"{_op}, written into each tensor.")
_define("_foreach_clone", _of_one(Tensor.clone), "A copy of each tensor.")
_define("_foreach_copy_", _of_two(Tensor.copy_), "Copies each tensor of a list into another's.")
_define("_foreach_mm", _of_two(Tensor.mm), "The product of each two matrices.")
_define("_foreach_pow_", _of_two(Tensor.pow_), "pow, written into each tensor.")
_define("_foreach_zero_", _of_one(Tensor.zero_), "Fills each tensor with zeros.")

__all__ = sorted(_name for _name in globals() if _name.startswith("_foreach_"))
