"""Marks of what stays as it is from version to version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rushlight._names.missing import names_missing_from

_T = TypeVar("_T")
_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}
_PROMISE = "Backwards-compatibility for this API is guaranteed."
_WARNING = "This API is experimental and is *NOT* backward-compatible."


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """A decorator that notes the promise, and says it at the end of the docstring.

    Arguments:
        is_backward_compatible: whether later versions will have it as it is.

    Example:
        >>> from rushlight.fx._compatibility import compatibility
        >>> @compatibility(is_backward_compatible=True)
        ... def twice(x):
        ...     return 2 * x
        >>> twice(3)
        6
    """

    def mark(fn: _T) -> _T:
        said = _PROMISE if is_backward_compatible else _WARNING
        fn.__doc__ = f"{fn.__doc__ or ''}\n\n.. note::\n    {said}\n"
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(fn)
        _MARKED_WITH_COMPATIBILITY.setdefault(fn)
        return fn

    return mark


__getattr__ = names_missing_from(__name__)
