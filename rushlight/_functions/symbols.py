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
    """int(a)."""
    return int(a)


def sym_float(a: Any) -> float:
    """float(a)."""
    return float(a)


def sym_not(a: Any) -> bool:
    """not a."""
    return not a


def sym_ite(b: Any, t: _T, f: _T) -> _T:
    """t if b else f."""
    return t if b else f


def sym_max(a: float, b: float) -> float:
    """The larger of two numbers; a float where one of them is."""
    return max(float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: float, b: float) -> float:
    """The smaller of two numbers; a float where one of them is."""
    return min(float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_sum(args: Iterable[float]) -> float:
    """The sum of numbers."""
    return sum(args)


class _SymbolMeta(type):
    def __instancecheck__(cls, instance):
        return False


class SymInt(metaclass=_SymbolMeta):
    """A size that PyTorch traces; none exists."""


class SymFloat(metaclass=_SymbolMeta):
    """A number that PyTorch traces; none exists."""


class SymBool(metaclass=_SymbolMeta):
    """A bool that PyTorch traces; none exists."""
