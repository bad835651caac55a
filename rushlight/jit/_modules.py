"""The classes of scripted and traced things.

script and trace give back what they were given. It is remembered what went through them, so that
what a scripted module can do besides (save) says why it cannot here."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, overload

from rushlight._names.absent import explained
from rushlight._names.missing import not_available
from rushlight.nn import Module

_F = TypeVar("_F", bound=Callable[..., Any])
_M = TypeVar("_M", bound=Module)

_WHY = explained("TorchScript")

_scripted = weakref.WeakSet()


def scripted(obj):
    """The object itself; it can then be asked for what only scripted ones have."""
    if isinstance(obj, Module):
        _scripted.update(obj.modules())
    elif isinstance(obj, types.FunctionType) and not hasattr(obj, "save"):
        obj.save, obj.save_to_buffer = ScriptModule.save, ScriptModule.save_to_buffer
    return obj


def scripted_method(module, name):
    """A method that scripted modules have and others have not; None where it is no such name."""
    found = vars(ScriptModule).get(name) if module in _scripted else None
    return found.__get__(module) if isinstance(found, types.FunctionType) else None


class ScriptModule(Module):
    """A module to subclass; its methods are Python."""

    save = not_available("ScriptModule.save", _WHY)
    save_to_buffer = not_available("ScriptModule.save_to_buffer", _WHY)
    _save_for_lite_interpreter = not_available("ScriptModule._save_for_lite_interpreter", _WHY)

    @property
    def code(self) -> str:
        """The source of forward."""
        import inspect

        return inspect.getsource(type(self).forward)

    @property
    def graph(self) -> NoReturn:
        raise NotImplementedError("ScriptModule.graph: modules run eagerly and have no graph")


class RecursiveScriptModule(ScriptModule):
    """What PyTorch's script makes of a module; here script gives the module itself."""


class ScriptFunction:
    """What PyTorch's script makes of a function; here script gives the function itself."""


class TracedModule(ScriptModule):
    """What PyTorch's trace makes of a module; here trace gives the module itself."""


class TopLevelTracedModule(TracedModule):
    """The outermost of traced modules."""


@overload
def trace(
    func: None = None, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
    check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
    _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None, _store_inputs: bool = True,
) -> Callable[..., Any]: ...  # fmt: skip
@overload
def trace(
    func: _F, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
    check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
    _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None, _store_inputs: bool = True,
) -> _F: ...  # fmt: skip
def trace(
    func: Any = None,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Callable[..., Any]:
    """The function or module itself, after one call with the example inputs: whatever fails on
    them fails here, as in a trace."""
    if func is None:
        return trace
    from rushlight.autograd import no_grad

    with no_grad():
        if example_kwarg_inputs is not None:
            func(**example_kwarg_inputs)
        elif isinstance(example_inputs, tuple | list):
            func(*example_inputs)
        elif isinstance(example_inputs, dict):
            func(**example_inputs)
        elif example_inputs is not None:
            func(example_inputs)
    return scripted(func)


def trace_module(mod: _M, inputs: dict[str, Any], **_: Any) -> _M:
    """The module itself, after one call of each method with its example inputs."""
    for name, example in inputs.items():
        trace(mod if name == "forward" else getattr(mod, name), example)
    return scripted(mod)
