"""Programs without Python: trace and script make one, save and load keep it; C++ runs and
trains it.

docs/programs.md is the guide."""

# Without `from __future__ import annotations`, whose name is that of a module here.

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar, overload

from rushlight import _C
from rushlight._names.missing import fill
from rushlight._scripting import is_scripting
from rushlight.futures import Future
from rushlight.jit import annotations as annotations
from rushlight.jit._files import load, save
from rushlight.jit._modules import ScriptModule
from rushlight.jit._program import ScriptFunction, TopLevelTracedModule, TracedModule
from rushlight.jit._script.source import mark
from rushlight.jit._script.source import note_overload as _overload
from rushlight.jit._scripted import (
    RecursiveScriptModule,
    script_class,
    script_function,
    script_module,
)
from rushlight.jit._trace import TracerWarning, TracingCheckError, trace, trace_module
from rushlight.jit._values import Error
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

_builtin_isinstance = isinstance
_F = TypeVar("_F")
_P = ParamSpec("_P")
_T = TypeVar("_T")
_M = TypeVar("_M", bound=Module)


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
    """A program of a function or a module: its source is compiled, control flow and all.

    Parameters without annotation are tensors; example_inputs (a list of tuples) tells their types
    instead. A module gives a module that shares its parameters and buffers, with forward and the
    methods that are marked with @jit.export. A class is compiled with its methods, so that errors
    are found, and comes back as it is: scripts make its objects, pass and return them.

    Arguments:
        obj: a function, a module or a class.
        optimize: accepted.
        example_inputs: accepted.

    Example:
        >>> net = rl.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), optimize=None)
        >>> net(rl.zeros(1, 2)).shape
        rushlight.Size([1, 2])
    """
    if obj is None:
        return script
    if _builtin_isinstance(obj, TopLevelTracedModule | ScriptFunction):
        return obj
    if _builtin_isinstance(obj, Module):
        return script_module(obj)
    if _builtin_isinstance(obj, type):
        return script_class(obj)
    if not callable(obj) or not hasattr(obj, "__code__"):
        raise TypeError(f"script: expected a function or a module, got {type(obj).__name__}")
    example = (
        example_inputs[0] if _builtin_isinstance(example_inputs, list) and example_inputs else None
    )
    return script_function(obj, example)


def script_if_tracing(fn: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that is compiled when it is first called in a trace, and keeps to Python else.

    Arguments:
        fn: a function that jit.script can compile; its control flow is then part of the trace.

    Example:
        >>> @rl.jit.script_if_tracing
        ... def relu_or_neg(x):
        ...     if x.sum() > 0:
        ...         return x.relu()
        ...     return -x
        >>> traced = rl.jit.trace(lambda x: relu_or_neg(x), rl.ones(2))
        >>> traced(rl.tensor([-3.0, 1.0]))
        tensor([ 3., -1.])
    """
    import functools

    compiled: list[Any] = []

    @functools.wraps(fn)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not is_tracing():
            return fn(*args, **kwargs)
        if not compiled:
            compiled.append(script(fn))
        return compiled[0](*args, **kwargs)

    return wrapper


def script_method(fn: _F) -> _F:
    """Marks a method of a ScriptModule to be compiled with it.

    Arguments:
        fn: the method.

    Example:
        >>> class Net(rl.jit.ScriptModule):
        ...     @rl.jit.script_method
        ...     def forward(self, x):
        ...         return x * 2
        >>> Net()(rl.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """
    return mark(fn, "export")


@overload
def ignore(drop: bool = False, **kwargs: Any) -> Callable[[_F], _F]: ...
@overload
def ignore(drop: Callable[_P, _F], **kwargs: Any) -> Callable[_P, _F]: ...
def ignore(drop: bool | Callable[..., Any] = False, **kwargs: Any) -> Callable[..., Any]:
    """Leaves a function out of programs, in which a call of it raises; usable with and without
    parentheses. In Python it is what it was.

    Arguments:
        drop: the function, where there are no parentheses; or whether to mark it as `unused` does.
        kwargs: accepted.

    Example:
        >>> @rl.jit.ignore(drop=True)
        ... def log(x):
        ...     return f"mean {x.mean().item()}"
        >>> log(rl.tensor([1.0, 3.0]))
        'mean 2.0'
    """
    if callable(drop):
        return mark(drop, "ignore")
    return lambda fn: mark(fn, "unused" if drop else "ignore")


def unused(fn: _F) -> _F:
    """Leaves a function out of programs, in which a call of it raises.

    Arguments:
        fn: the function or method.

    Example:
        >>> @rl.jit.unused
        ... def debug(x):
        ...     return x.tolist()
        >>> debug(rl.tensor([1, 2]))
        [1, 2]
    """
    return mark(fn, "unused")


def export(fn: _F) -> _F:
    """Marks a method that script compiles besides forward.

    Arguments:
        fn: the method; it comes back, marked.

    Example:
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return x + 1
        ...     @rl.jit.export
        ...     def twice(self, x):
        ...         return x * 2
        >>> net = rl.jit.script(Net())
        >>> net(rl.tensor([1.0])), net.twice(rl.tensor([1.0]))
        (tensor([2.]), tensor([2.]))
    """
    return mark(fn, "export")


def interface(obj: _F) -> _F:
    """The class itself: as a decorator, it changes nothing.

    Arguments:
        obj: the class, with the methods that modules of this interface have.

    Example:
        >>> @rl.jit.interface
        ... class Scorer:
        ...     def score(self, x: rl.Tensor) -> rl.Tensor: ...
        >>> Scorer.__name__
        'Scorer'
    """
    return obj


def is_tracing() -> bool:
    """Whether this thread is being traced.

    Example:
        >>> rl.jit.is_tracing()
        False
    """
    return _C._jit_is_tracing()


def annotate(the_type: Any, the_value: _F) -> _F:
    """The value; the type is for readers.

    Arguments:
        the_type: the type that the value has.
        the_value: the value, which comes back.

    Example:
        >>> rl.jit.annotate(list[int], [])
        []
    """
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """isinstance that understands containers: isinstance(x, List[int]) looks at the items.

    Arguments:
        obj: any object.
        target_type: a type, a type with items such as `list[int]`, a union, or a tuple of these.

    Example:
        >>> rl.jit.isinstance([1, 2], list[int]), rl.jit.isinstance([1, "a"], list[int])
        (True, False)
        >>> rl.jit.isinstance({"a": None}, dict[str, int | None])
        True
    """
    from rushlight.jit._isinstance import fits

    return fits(obj, target_type)


class Attribute:
    """A value with its type, for scripted modules.

    Arguments:
        value: the value.
        type: its type.

    Example:
        >>> a = rl.jit.Attribute(0.5, float)
        >>> a.value, a.type
        (0.5, <class 'float'>)
    """

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Runs the function; the result waits in a Future.

    Arguments:
        func: the function.
        args, kwargs: what it is called with.

    Example:
        >>> rl.jit.wait(rl.jit.fork(rl.add, rl.tensor(1), 2))
        tensor(3)
    """
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of a forked function.

    Arguments:
        future: what fork gave.

    Example:
        >>> rl.jit.wait(rl.jit.fork(rl.neg, rl.tensor(1)))
        tensor(-1)
    """
    return future.wait()


def freeze(mod: _M, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> _M:
    """A script whose parameters, buffers and attributes are constants, as they are now; those in
    preserved_attrs stay. The module must be in eval mode. Traced programs come back as they are.

    Arguments:
        mod: a module that jit.script or jit.trace gave.
        preserved_attrs: names of attributes and methods that stay.
        optimize_numerics: accepted.

    Raises:
        RuntimeError: where the module is in training mode.

    Example:
        >>> net = rl.jit.script(nn.Linear(2, 1).eval())
        >>> frozen = rl.jit.freeze(net, preserved_attrs=[])
        >>> len(list(net.parameters())), len(list(frozen.parameters()))
        (2, 0)
    """
    if mod.training:
        raise RuntimeError("jit.freeze: the module is in training mode; call eval() first")
    source = getattr(mod, "_script_source", None)
    if source is None:
        return mod
    source.eval()
    for name, value in mod.state_dict().items():
        source.state_dict()[name].copy_(value)
    return script_module(source, frozen=list(preserved_attrs or ()))  # type: ignore[return-value]


def optimize_for_inference(mod: _M, other_methods: list[str] | None = None) -> _M:
    """The module, frozen where it is a script that can be.

    Arguments:
        mod: a module that jit.script or jit.trace gave. In training mode it comes back as it is.
        other_methods: names of methods and attributes that stay, besides forward.

    Example:
        >>> net = rl.jit.script(nn.Linear(2, 1).eval())
        >>> fast = rl.jit.optimize_for_inference(net, other_methods=None)
        >>> len(list(fast.parameters())), rl.equal(fast(rl.ones(1, 2)), net(rl.ones(1, 2)))
        (0, True)
    """
    if mod.training or getattr(mod, "_script_source", None) is None:
        return mod
    return freeze(mod, preserved_attrs=other_methods)


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A with block; the code in it runs eagerly either way.

    Arguments:
        should_optimize: accepted; it changes nothing.

    Example:
        >>> with rl.jit.optimized_execution(False):
        ...     print(rl.ones(2) + 1)
        tensor([2., 2.])
    """
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A with block; no kernels are fused.

    Arguments:
        name: accepted, such as "fuser1"; it changes nothing.

    Example:
        >>> with rl.jit.fuser("fuser1"):
        ...     print(rl.ones(2) * 3)
        tensor([3., 3.])
    """
    yield


class strict_fusion(contextlib.nullcontext):
    """A with block; no kernels are fused.

    Arguments:
        enter_result: what `with ... as` gives.

    Example:
        >>> with rl.jit.strict_fusion(enter_result="unchanged") as given:
        ...     print(given)
        unchanged
    """


def set_fusion_strategy(strategy: Any) -> list[tuple[str, int]]:
    """Keeps nothing: no kernels are fused. Returns the strategy before.

    Arguments:
        strategy: pairs such as ("STATIC", 2); accepted.

    Returns:
        Always the same list, as nothing is kept.

    Example:
        >>> rl.jit.set_fusion_strategy([("DYNAMIC", 4)])
        [('STATIC', 2), ('DYNAMIC', 10)]
    """
    return [("STATIC", 2), ("DYNAMIC", 10)]


def enable_onednn_fusion(enabled: bool) -> None:
    """Does nothing: no graphs are fused.

    Arguments:
        enabled: accepted.

    Example:
        >>> rl.jit.enable_onednn_fusion(True)
        >>> rl.jit.onednn_fusion_enabled()
        False
    """


def onednn_fusion_enabled() -> bool:
    """Whether oneDNN fuses graphs: no.

    Example:
        >>> rl.jit.onednn_fusion_enabled()
        False
    """
    return False


# What else programs switch off before they measure.
_state = type(
    "_state", (), {"disable": staticmethod(lambda: None), "enable": staticmethod(lambda: None)}
)


def _get_trace_graph(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """(graph, result) of a module: the operators that it calls, with PyTorch's names and shapes."""
    from rushlight.jit._trace_graph import get_trace_graph

    return get_trace_graph(*args, **kwargs)


_fork, _wait, _script_if_tracing = fork, wait, script_if_tracing
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
