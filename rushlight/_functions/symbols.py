"""Sizes that PyTorch traces as symbols: plain numbers here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sum",
]


def sym_int(a: Any) -> int:
    """int(a), for sizes that PyTorch may trace.

    Arguments:
        a: a number.

    Example:
        >>> rl.sym_int(2.7)
        2
    """
    return int(a)


def sym_float(a: Any) -> float:
    """float(a), for numbers that PyTorch may trace.

    Arguments:
        a: a number.

    Example:
        >>> rl.sym_float(3)
        3.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """`not` a, for conditions that PyTorch may trace.

    Arguments:
        a: a bool.

    Example:
        >>> rl.sym_not(False)
        True
    """
    return not a


def sym_ite(b: Any, t: _T, f: _T) -> _T:
    """t if b else f: both are computed already.

    Arguments:
        b: the condition.
        t, f: the value where it holds, and where it does not.

    Example:
        >>> rl.sym_ite(2 > 1, "yes", "no")
        'yes'
    """
    return t if b else f


def sym_max(a: float, b: float) -> float:
    """The larger of two numbers; a float where one of them is.

    Arguments:
        a, b: the numbers.

    Example:
        >>> rl.sym_max(3, 2.0)
        3.0
    """
    return max(float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: float, b: float) -> float:
    """The smaller of two numbers; a float where one of them is.

    Arguments:
        a, b: the numbers.

    Example:
        >>> rl.sym_min(3, 2)
        2
    """
    return min(float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_sum(args: Iterable[float]) -> float:
    """The sum of numbers, which PyTorch may trace.

    Arguments:
        args: the numbers.

    Example:
        >>> rl.sym_sum([1, 2, 3])
        6
    """
    return sum(args)


class _SymbolMeta(type):
    def __instancecheck__(cls, instance):
        return False


class SymInt(metaclass=_SymbolMeta):
    """A size that PyTorch traces; none exists: sizes are ints.

    Example:
        >>> isinstance(rl.ones(3).size(0), rl.SymInt)
        False
    """


class SymFloat(metaclass=_SymbolMeta):
    """A number that PyTorch traces; none exists: numbers are floats.

    Example:
        >>> isinstance(rl.ones(()).item(), rl.SymFloat)
        False
    """


class SymBool(metaclass=_SymbolMeta):
    """A bool that PyTorch traces; none exists.

    Example:
        >>> isinstance(rl.ones(3).size(0) > 2, rl.SymBool)
        False
    """
