"""What is remembered about Nodes while graphs run and are made anew."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rushlight._names.missing import names_missing_from
from rushlight.fx.node import Node

__all__ = [
    "annotate", "annotate_fn", "format_stack", "get_current_meta", "has_preserved_node_meta",
    "preserve_node_meta", "set_current_meta", "set_stack_trace",
]  # fmt: skip

_F = TypeVar("_F", bound=Callable[..., Any])


class _State(threading.local):
    meta: dict[str, Any]
    preserve = False

    def __init__(self) -> None:
        self.meta = {}


_state = _State()


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A with block in which Nodes made while another runs take its meta over."""
    before = (_state.preserve, _state.meta)
    _state.preserve, _state.meta = enable, dict(_state.meta)
    try:
        yield
    finally:
        _state.preserve, _state.meta = before


def has_preserved_node_meta() -> bool:
    """Whether preserve_node_meta is on in this thread."""
    return _state.preserve


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """A with block in which a Node's meta is the current one, if it is to be preserved."""
    if not _state.preserve or not node.meta:
        yield
        return
    before = _state.meta
    _state.meta = dict(node.meta)
    try:
        yield
    finally:
        _state.meta = before


def get_current_meta() -> dict[str, Any]:
    """The meta of the Node that runs."""
    return _state.meta


def set_stack_trace(stack: list[str]) -> None:
    """The lines that Nodes made from now on come from, if that is preserved."""
    if _state.preserve and stack:
        _state.meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The lines of the Node that runs, or of the program."""
    import traceback

    if _state.preserve:
        return [_state.meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A with block; Nodes that are made in it have these items in meta["custom"]."""
    before = _state.meta
    custom = {**before.get("custom", {}), **annotation_dict}
    _state.meta = {**before, "custom": custom}
    try:
        yield
    finally:
        _state.meta = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[_F], _F]:
    """A decorator: what the function does is annotated."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


__getattr__ = names_missing_from(__name__)
