"""Custom autograd.Functions in an export: their forward counts, and is traced as it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from rushlight.autograd.function import Function, applied_otherwise


class _Context:
    """What forward is given; nobody asks it for a gradient."""

    def __init__(self, count: int) -> None:
        self.needs_input_grad = (False,) * count
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Writes in place are seen as they happen."""

    mark_non_differentiable = save_for_forward = mark_dirty

    def set_materialize_grads(self, value: bool) -> None:
        """There are no gradients."""


def _forward(cls: type[Function], args: tuple[Any, ...]) -> Any:
    if not cls._uses_setup_context:
        args = (_Context(len(args)), *args)
    return cls.forward(*args)


@contextlib.contextmanager
def forward_only() -> Iterator[None]:
    """In this thread, apply() of a Function calls its forward and nothing else."""
    here = threading.get_ident()
    before = applied_otherwise.get(here)
    applied_otherwise[here] = _forward
    try:
        yield
    finally:
        if before is None:
            del applied_otherwise[here]
        else:
            applied_otherwise[here] = before
