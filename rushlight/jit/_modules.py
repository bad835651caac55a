"""The classes of scripted things.

script gives back what it was given. It is remembered what went through it, so that what a scripted
module can do besides (save) says why it cannot here."""

from __future__ import annotations

import types
import weakref
from typing import Any

from rushlight._names.absent import explained
from rushlight._names.missing import not_available
from rushlight.nn import Module

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

    save: Any = not_available("ScriptModule.save", _WHY)
    save_to_buffer: Any = not_available("ScriptModule.save_to_buffer", _WHY)
    _save_for_lite_interpreter = not_available("ScriptModule._save_for_lite_interpreter", _WHY)

    @property
    def code(self) -> str:
        """The source of forward."""
        import inspect

        return inspect.getsource(type(self).forward)

    @property
    def graph(self) -> str:
        raise NotImplementedError("ScriptModule.graph: modules run eagerly and have no graph")


class RecursiveScriptModule(ScriptModule):
    """What PyTorch's script makes of a module; here script gives the module itself."""
