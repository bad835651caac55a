"""Programs without Python: trace makes one, save and load keep it; C++ runs and trains it.

script gives back what it was given, which runs eagerly with the same results: its compiler is not
there yet. docs/programs.md is the guide."""

# Without `from __future__ import annotations`, whose name is that of a module here.

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar, overload

from rushlight import _C
from rushlight._names.missing import fill
from rushlight.futures import Future
from rushlight.jit import annotations as annotations
from rushlight.jit._files import load, save
from rushlight.jit._modules import RecursiveScriptModule, ScriptModule, scripted
from rushlight.jit._program import ScriptFunction, TopLevelTracedModule, TracedModule
from rushlight.jit._trace import TracerWarning, TracingCheckError, trace, trace_module
from rushlight.nn import Module

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_isinstance = isinstance
_F = TypeVar("_F")
_P = ParamSpec("_P")
_M = TypeVar("_M", bound=Module)


class Error(RuntimeError):
    """An error in scripted code; never raised, as code runs in Python."""


@overload
def script(
    obj: None = None, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
    example_inputs: Any = None,
) -> Callable[[_F], _F]: ...  # fmt: skip
@overload
def script(
    obj: _F, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
    example_inputs: Any = None,
) -> _F: ...  # fmt: skip
def script(
    obj: Any = None,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class or module itself: it runs eagerly."""
    return script if obj is None else scripted(obj)


def script_if_tracing(fn: _F) -> _F:
    """The function itself."""
    return fn


def script_method(fn: _F) -> _F:
    """The method itself."""
    return fn


@overload
def ignore(drop: bool = False, **kwargs: Any) -> Callable[[_F], _F]: ...
@overload
def ignore(drop: Callable[_P, _F], **kwargs: Any) -> Callable[_P, _F]: ...
def ignore(drop: bool | Callable[..., Any] = False, **kwargs: Any) -> Callable[..., Any]:
    """Leaves a function to Python, as it is; usable with and without parentheses."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: _F) -> _F:
    """The function itself."""
    return fn


def export(fn: _F) -> _F:
    """The method itself."""
    return fn


def interface(obj: _F) -> _F:
    """The class itself."""
    return obj


def is_scripting() -> bool:
    """Whether the code runs as TorchScript: never."""
    return False


def is_tracing() -> bool:
    """Whether this thread is being traced."""
    return _C._jit_is_tracing()


def annotate(the_type: Any, the_value: _F) -> _F:
    """The value; the type is for readers."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """isinstance that understands containers: isinstance(x, List[int]) looks at the items."""
    from rushlight.jit._isinstance import fits

    return fits(obj, target_type)


class Attribute:
    """A value with its type, for scripted modules."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Runs the function; the result waits in a Future."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of a forked function."""
    return future.wait()


def freeze(mod: _M, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> _M:
    """The module itself, which must be in eval mode."""
    if mod.training:
        raise RuntimeError("jit.freeze: the module is in training mode; call eval() first")
    return mod


def optimize_for_inference(mod: _M, other_methods: list[str] | None = None) -> _M:
    """The module itself."""
    return mod


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A with block; the code in it runs eagerly either way."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A with block; no kernels are fused."""
    yield


class strict_fusion(contextlib.nullcontext):
    """A with block; no kernels are fused."""


def set_fusion_strategy(strategy: Any) -> list[tuple[str, int]]:
    """Keeps nothing: no kernels are fused. Returns the strategy before."""
    return [("STATIC", 2), ("DYNAMIC", 10)]


def enable_onednn_fusion(enabled: bool) -> None:
    """Does nothing: no graphs are fused."""


def onednn_fusion_enabled() -> bool:
    """Whether oneDNN fuses graphs: no."""
    return False


# What else programs switch off before they measure.
_state = type(
    "_state", (), {"disable": staticmethod(lambda: None), "enable": staticmethod(lambda: None)}
)

_fork, _wait, _script_if_tracing = fork, wait, script_if_tracing


def _overload(func):
    """An overload's signature; the function that is called comes last."""
    return func


_overload_method = _overload
_drop = unused


def _unwrap_optional(x):
    """x, which must not be None."""
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


class ScriptWarning(Warning):
    """PyTorch's warning about scripted code; never given."""


fill(globals())
