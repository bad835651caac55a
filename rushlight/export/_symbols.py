"""Sizes that remember where they came from, for the time of an export.

While a module is traced, `x.shape` and `x.size()` give ints that carry an expression: the size of
a value of the trace, or what Python's arithmetic made of such. Comparisons of them are kept with
their lines: the program holds only where they come out the same.

An expression is a tuple: ("size", value, dimension), ("is", number), or the name of a builtin of
programs (csrc/jit/builtins_numbers.cpp) with its operands.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import sys
import threading
from typing import Any, NamedTuple

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["Book", "Guard", "evaluate", "is_float", "sizes_in", "watched"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

BUILTINS: dict[str, Any] = {
    "add_int": operator.add, "sub_int": operator.sub, "mul_int": operator.mul,
    "floordiv_int": operator.floordiv, "mod_int": operator.mod, "pow_int": operator.pow,
    "neg_int": operator.neg, "abs_int": abs, "truediv_int": operator.truediv,
    "float_int": float, "add_float": operator.add, "sub_float": operator.sub,
    "mul_float": operator.mul, "truediv_float": operator.truediv, "pow_float": operator.pow,
    "floordiv_float": operator.floordiv, "neg_float": operator.neg, "abs_float": abs,
    "math_sqrt": math.sqrt, "math_log": math.log, "math_floor": math.floor,
    "math_ceil": math.ceil, "math_trunc": math.trunc, "round_int": round,
}  # fmt: skip
_TO_INT = frozenset(("math_floor", "math_ceil", "math_trunc", "round_int"))
COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def is_float(expr: tuple[Any, ...]) -> bool:
    """Whether the expression is a float."""
    if expr[0] == "is":
        return isinstance(expr[1], float)
    if expr[0] in _TO_INT:
        return False
    return expr[0].endswith("_float") or expr[0].startswith("math_") or expr[0] in (
        "truediv_int", "float_int")  # fmt: skip


def evaluate(expr: tuple[Any, ...], sizes: Any) -> Any:
    """The expression's value; sizes(value, dimension) gives a size."""
    if expr[0] == "is":
        return expr[1]
    if expr[0] == "size":
        return sizes(expr[1], expr[2])
    return BUILTINS[expr[0]](*(evaluate(e, sizes) for e in expr[1:]))


def sizes_in(expr: tuple[Any, ...]) -> set[tuple[int, int]]:
    """The (value, dimension) that it consists of."""
    if expr[0] == "size":
        return {(expr[1], expr[2])}
    if expr[0] == "is":
        return set()
    return set().union(*(sizes_in(e) for e in expr[1:]))


class Guard(NamedTuple):
    """A comparison of sizes that Python has made."""

    how: str  # of COMPARED
    left: tuple[Any, ...]
    right: tuple[Any, ...]
    held: bool
    at: tuple[str, int]  # file, line

    def holds(self, sizes: Any) -> bool:
        """Does it come out as it did?"""
        left, right = evaluate(self.left, sizes), evaluate(self.right, sizes)
        return getattr(operator, self.how)(left, right) == self.held


class Book:
    """What one trace has seen of sizes."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.exprs: list[tuple[Any, ...]] = []
        self.guards: list[Guard] = []

    def size(self, tensor: Any, dim: int, number: int) -> int:
        """The size, with its expression where it has one."""
        value = _C._jit_value_of(self.tracer, tensor)
        return number if value is None else _Int.made(number, ("size", value, dim), self)

    def compared(self, how, left, right, held):
        self.guards.append(Guard(how, left, right, held, _line_of_user()))
        return held


def _line_of_user():
    """The innermost line outside of this package, else of the package's modules."""
    frame: Any = sys._getframe(2)
    inner = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            return file, frame.f_lineno
        if inner is None and not file.endswith("_symbols.py"):
            inner = (file, frame.f_lineno)
        frame = frame.f_back
    return inner or ("<unknown>", 0)


def _expr_of(x):
    if isinstance(x, _Int | _Float):
        return x.expr
    return ("is", int(x) if isinstance(x, int) else x)


def _as_float(expr):
    if is_float(expr):
        return expr
    return ("is", float(expr[1])) if expr[0] == "is" else ("float_int", expr)


class _Carried:
    """What ints and floats with an expression have in common."""

    expr: tuple[Any, ...]
    book: Book

    @classmethod
    def made(cls, number, expr, book):
        self = cls(number)
        self.expr, self.book = expr, book
        book.exprs.append(expr)
        return self

    def __reduce__(self):
        return type(self).plain, (type(self).plain(self),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return repr(type(self).plain(self))

    __str__ = __repr__

    def __format__(self, spec):
        return format(type(self).plain(self), spec)


class _Int(_Carried, int):
    plain = int

    def __bool__(self):
        held = int.__bool__(self)
        return self.book.compared("ne", self.expr, ("is", 0), held)

    __hash__ = int.__hash__

    def __neg__(self):
        return _Int.made(int.__neg__(self), ("neg_int", self.expr), self.book)

    def __abs__(self):
        return _Int.made(int.__abs__(self), ("abs_int", self.expr), self.book)

    def __pos__(self):
        return self


class _Float(_Carried, float):
    plain = float

    def __bool__(self):
        held = float.__bool__(self)
        return self.book.compared("ne", self.expr, ("is", 0.0), held)

    __hash__ = float.__hash__

    def __neg__(self):
        return _Float.made(float.__neg__(self), ("neg_float", self.expr), self.book)

    def __abs__(self):
        return _Float.made(float.__abs__(self), ("abs_float", self.expr), self.book)

    def _to_int(self, name):
        number = BUILTINS[name](float(self))
        return _Int.made(number, (name, self.expr), self.book)

    def __floor__(self):
        return self._to_int("math_floor")

    def __ceil__(self):
        return self._to_int("math_ceil")

    def __trunc__(self):
        return self._to_int("math_trunc")

    def __round__(self, digits=None):
        if digits is None:
            return self._to_int("round_int")
        return float.__round__(self, digits)


def _arithmetic(name, turned):
    """The slot __add__ or __radd__ and their like."""
    function = getattr(operator, name)

    def slot(self, other):
        plain = isinstance(other, int | float) and not isinstance(other, bool)
        if not plain:
            return NotImplemented
        left, right = (other, self) if turned else (self, other)
        number = function(type_of(left)(left), type_of(right)(right))
        a, b = _expr_of(left), _expr_of(right)
        if name == "truediv" and isinstance(left, int) and isinstance(right, int):
            return _Float.made(number, ("truediv_int", a, b), self.book)
        if isinstance(number, float):
            if f"{name}_float" not in BUILTINS:
                return number
            expr = (f"{name}_float", _as_float(a), _as_float(b))
            return _Float.made(number, expr, self.book)
        return _Int.made(number, (f"{name}_int", a, b), self.book)

    return slot


def type_of(x):
    return int if isinstance(x, int) else float


def _comparison(how):
    function = getattr(operator, how)

    def slot(self, other):
        if not isinstance(other, int | float):
            return NotImplemented
        held = function(type_of(self)(self), type_of(other)(other))
        return self.book.compared(how, self.expr, _expr_of(other), held)

    return slot


for _cls in (_Int, _Float):
    for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        if _cls is _Int or f"{_name}_float" in BUILTINS:
            setattr(_cls, f"__{_name}__", _arithmetic(_name, False))
            setattr(_cls, f"__r{_name}__", _arithmetic(_name, True))
    for _name in COMPARED:
        setattr(_cls, f"__{_name}__", _comparison(_name))
del _cls, _name

_lock = threading.Lock()
_books: dict[int, Book] = {}  # by thread
_plain_shape, _plain_size = Tensor.__dict__["shape"], Tensor.__dict__["size"]


def _shape(self):
    sizes = _plain_shape.__get__(self)
    book = _books.get(threading.get_ident())
    if book is None:
        return sizes
    return _C.Size([book.size(self, i, n) for i, n in enumerate(sizes)])


def _size(self, dim=None):
    if threading.get_ident() not in _books:
        return _plain_size(self) if dim is None else _plain_size(self, dim)
    if dim is None:
        return _shape(self)
    _plain_size(self, dim)  # refuses what is no dimension
    return _shape(self)[int(dim)]


@contextlib.contextmanager
def watched(book: Book) -> Any:
    """A with block in which sizes that this thread reads carry expressions."""
    with _lock:
        if not _books:
            setattr(Tensor, "shape", property(_shape))  # noqa: B010
            setattr(Tensor, "size", _size)  # noqa: B010
        _books[threading.get_ident()] = book
    try:
        yield
    finally:
        with _lock:
            del _books[threading.get_ident()]
            if not _books:
                setattr(Tensor, "shape", _plain_shape)  # noqa: B010
                setattr(Tensor, "size", _plain_size)  # noqa: B010
