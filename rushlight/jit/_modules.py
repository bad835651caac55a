"""The class of modules that are programs."""

from __future__ import annotations

from typing import Any

from rushlight._names.missing import not_available
from rushlight.nn import Module

_WHY = "only what jit.trace, jit.script and jit.load give can be saved as a program"


class ScriptModule(Module):
    """The base of modules that are programs. A subclass of it is Python until jit.script compiles
    it.

    Example:
        >>> class Net(rl.jit.ScriptModule):
        ...     def forward(self, x):
        ...         return x + 1
        >>> Net()(rl.zeros(2))
        tensor([1., 1.])
        >>> isinstance(rl.jit.script(nn.ReLU()), rl.jit.ScriptModule)
        True
    """

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
        raise NotImplementedError(
            "ScriptModule.graph: the module is Python; jit.script compiles it"
        )
