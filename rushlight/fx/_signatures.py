"""The parameters of functions that are traced."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of parameters and result; those that are texts and name nothing known are left
    out, since generated code could not name them either."""
    given = getattr(inspect.unwrap(function), "__annotations__", {})
    space = getattr(inspect.unwrap(function), "__globals__", {})
    found = {}
    for name, annotation in given.items():
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, space)
            except Exception:  # names for type checkers only
                continue
        found[name] = annotation
    return found


def with_stars(
    function: Callable[..., Any], star: int | None, keywords: list[tuple[str | None, Any]]
) -> Callable[..., Any]:
    """The function called with one Proxy in the place of *args and of **kwargs."""
    if star is None and not keywords:
        return function
    named = {name: value for name, value in keywords if name is not None}
    rest = next((value for name, value in keywords if name is None), None)
    patched = _without_stars(function) if star is not None or rest is not None else function

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if patched is function:
            return function(*args, **named)
        more = [named[name] for name in named]
        # Parameters in the order of the code's variables: positional, keyword only, *, **.
        stars = [args[star]] if star is not None else []
        plain = [arg for i, arg in enumerate(args) if i != star]
        return patched(*plain, *more, *stars, *([rest] if rest is not None else []))

    return call


def _without_stars(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same code with *args and **kwargs as ordinary parameters."""
    inner = inspect.unwrap(function)
    if not isinstance(inner, FunctionType):
        raise TypeError(f"{function}: *args and **kwargs of such a callable cannot be traced")
    code = inner.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags
    )
    return FunctionType(plain, inner.__globals__, inner.__name__, None, inner.__closure__)
