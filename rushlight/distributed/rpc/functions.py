"""Functions that answer later."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["async_execution"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def async_execution(fn: _Function) -> _Function:
    """Marks a function that returns a Future: whoever calls it by RPC gets the Future's value, when
    it is there, and no thread waits for it meanwhile. Stands below @staticmethod and @classmethod.
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


def answers_later(fn: Any) -> bool:
    """Whether async_execution marked it."""
    return hasattr(getattr(fn, "__func__", fn), "_wrapped_async_rpc_function")
