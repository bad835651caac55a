"""torch.fx's names. Programs are not traced into graphs: classes may be named and subclassed, wrap
leaves functions as they are, and tracing raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rushlight._names.missing import fill

_T = TypeVar("_T")

__all__ = ["map_arg", "wrap"]


def wrap(fn_or_name: _T) -> _T:
    """The function itself (or its name): there is no tracer to hide it from."""
    return fn_or_name


def has_side_effect(fn: _T) -> _T:
    """The function itself: no graph is pruned."""
    return fn


def map_arg(a: _T, fn: Callable[..., Any]) -> _T:
    """a with fn called on every Node in it; there are none."""
    return a


fill(globals())
