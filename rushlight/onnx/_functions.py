"""Custom autograd.Functions in an export: their forward counts, and is traced as it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from rushlight.autograd.function import Function


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


@contextlib.contextmanager
def forward_only() -> Iterator[None]:
    """In this thread, apply() of a Function calls its forward and nothing else."""
    here, before = threading.get_ident(), Function.__dict__["apply"]

    def apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != here:
            return before.__func__(cls, *args, **kwargs)
        if cls._uses_setup_context:
            return cls.forward(*args, **kwargs)
        return cls.forward(_Context(len(args)), *args, **kwargs)

    Function.apply = classmethod(apply)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        Function.apply = before  # type: ignore[method-assign]
