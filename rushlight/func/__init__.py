"""Transforms of functions: derivatives, batching, and modules as functions. See docs/func.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.func._forward import hessian, jacfwd, jvp, linearize
from rushlight.func._modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from rushlight.func._reverse import grad, grad_and_value, jacrev, vjp
from rushlight.func._vmap import vmap

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Not there: Rushlight's transforms take functions that write in place as they are."""
    raise NotImplementedError(
        "functionalize: not supported; vmap, grad and jvp accept functions with in-place operations"
    )


__getattr__ = names_missing_from(__name__)
