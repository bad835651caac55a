"""The line of a program that called an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.fx._frames import at_line
from rushlight.overrides import TorchFunctionMode


class LineFinder(TorchFunctionMode):
    """Remembers which line called an operator for the n-th time."""

    def __init__(self, op: str, which: int) -> None:
        super().__init__()
        self._op, self._left = op, which
        self.text = ""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "").strip("_") != self._op.strip("_"):
            inner = getattr(func, "__wrapped__", None)  # of a function written in Python
            if inner is None:
                return func(*args, **kwargs)
            with self:
                return inner(*args, **kwargs)
        self._left -= 1
        if self._left == 0:
            self.text = at_line()
        return func(*args, **kwargs)
