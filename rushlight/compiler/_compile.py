"""compile: the program as it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from rushlight import _C

_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def compile(
    model: _F, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable | None = "inductor", mode: str | None = None,
    options: dict[str, str | int | bool | Callable] | None = None, disable: bool = False,
    name: str | None = None, **_: Any,
) -> _F: ...  # fmt: skip
@overload
def compile(
    model: None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable | None = "inductor", mode: str | None = None,
    options: dict[str, str | int | bool | Callable] | None = None, disable: bool = False,
    name: str | None = None, **_: Any,
) -> Callable[[_F], _F]: ...  # fmt: skip
def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = "inductor",
    mode: str | None = None,
    options: dict[str, str | int | bool | Callable] | None = None,
    disable: bool = False,
    name: str | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """Returns the function or module to be called in the model's place: it runs eagerly.

    As in PyTorch, a module comes back wrapped: its parameters are the module's own, and the names
    in its state_dict begin with "_orig_mod.". Without a model it is a decorator.
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile: mode and options say the same thing; give one of them")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if not callable(model):
        raise _C.ArgumentTypeError(f"compile: expected a callable, got {type(model).__name__}")
    from rushlight.nn import Module

    if isinstance(model, Module):
        from rushlight._dynamo.eval_frame import OptimizedModule

        return model if disable else OptimizedModule(model)
    return model if disable else _eager(model)


def _eager(function):
    @functools.wraps(function)
    def run_eagerly(*args, **kwargs):
        return function(*args, **kwargs)

    run_eagerly._torchdynamo_orig_callable = function
    return run_eagerly
