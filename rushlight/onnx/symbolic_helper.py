"""Decorators of functions that describe an operator in ONNX; no model is exported, so such a
function is never called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rushlight._names.missing import fill

__all__ = ["parse_args"]

_F = TypeVar("_F")


def parse_args(*arg_descriptors: str) -> Callable[[_F], _F]:
    """A decorator that leaves the function as it is."""
    return lambda function: function


fill(globals())
