"""Quantized tensors: integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def named(name: str, doc: str) -> Callable[[Any], Any]:
    """Gives a function that is made by another its name and its docstring."""

    def give(function: Any) -> Any:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        return function

    return give
