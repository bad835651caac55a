"""Which module of the tree made which instructions of an exported program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rushlight import _C
from rushlight.export._module_signatures import KeptCall, seen
from rushlight.jit._program import TracedModule
from rushlight.nn import Module

__all__ = ["ModuleCall", "checked_calls", "watched_calls"]


class ModuleCall(NamedTuple):
    """One call of a submodule: its path, and the instructions from `first` up to `end`."""

    path: str
    first: int
    end: int


@contextmanager
def watched_calls(
    module: Module, tracer: Any, paths: tuple[str, ...] = (), state: Any = ()
) -> Iterator[tuple[list[ModuleCall], dict[int, KeptCall]]]:
    """The calls of submodules that a trace goes through, outer ones before those inside, and the
    signatures of those of the paths. Scripted parts are calls of functions in the program, and are
    left out."""
    calls: list[ModuleCall] = []
    kept: dict[int, KeptCall] = {}
    handles = []

    def watch(path: str, part: Module) -> None:
        begun: list[tuple[int, Any]] = []

        def before(_: Any, args: Any, kwargs: Any) -> None:
            given = None
            if path in paths:
                given = seen(path, "a call", (args, kwargs), tracer, state)
            begun.append((len(calls), given))
            calls.append(ModuleCall(path, len(_C._jit_lines(tracer)), -1))

        def after(_: Any, args: Any, kwargs: Any, output: Any) -> None:
            place, given = begun.pop()
            calls[place] = calls[place]._replace(end=len(_C._jit_lines(tracer)))
            if given is not None:
                results = seen(path, "the output", output, tracer, state)
                kept[place] = KeptCall(given[0], given[1], results[0], results[1])

        handles.append(part.register_forward_pre_hook(before, prepend=True, with_kwargs=True))
        handles.append(part.register_forward_hook(after, with_kwargs=True))

    for path, part in module.named_modules():
        if path and not isinstance(part, TracedModule):
            watch(path, part)
    try:
        yield calls, kept
    finally:
        for handle in handles:
            handle.remove()


def checked_calls(rows: Any, count: int) -> list[ModuleCall]:
    """Calls from a file; ValueError where they are none of a program of `count` instructions."""
    calls = [ModuleCall(str(path), int(first), int(end)) for path, first, end in rows]
    ends: list[int] = []  # of the calls around
    last = 0
    for path, first, end in calls:
        while ends and ends[-1] <= first and end > ends[-1]:
            ends.pop()
        if not last <= first <= end <= (ends[-1] if ends else count) or not all(path.split(".")):
            raise ValueError(f"the call of '{path}' does not fit into the program")
        last = first
        ends.append(end)
    return calls
