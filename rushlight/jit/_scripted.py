"""Scripted functions and modules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.jit._program import Code, ScriptFunction, TopLevelTracedModule, TracedModule
from rushlight.jit._trace import _state_of
from rushlight.nn import Module
from rushlight.types import FileLike

__all__ = ["RecursiveScriptModule", "script_class", "script_function", "script_module"]

_PYTHON = frozenset(("_code", "_attributes", "_modes", "_script_source"))


class RecursiveScriptModule(TopLevelTracedModule):
    """A module whose methods are programs with control flow; made by jit.script and jit.load.

    It shares parameters and buffers with the module that was scripted. Its other attributes are its
    own; the mode (train, eval) of each part counts.

    Arguments:
        code: the program.
        state: its parameters and buffers, in the program's order.
        original_name: the name of the class of the module that was scripted.
        names: pairs (path, name of the class) of its parts.
        source: the module that was scripted.

    Example:
        >>> net = rl.jit.script(nn.Linear(2, 1))
        >>> isinstance(net, rl.jit.RecursiveScriptModule), net.original_name
        (True, 'Linear')
        >>> state = list(net.parameters())
        >>> rl.jit.RecursiveScriptModule(net._code, state, "Again", source=None).original_name
        'Again'
    """

    def __init__(
        self,
        code: Code,
        state: list[Tensor],
        original_name: str,
        names: Any = (),
        source: Any = None,
    ) -> None:
        names = dict(names)
        super().__init__(code, state, original_name, names)
        object.__setattr__(self, "_attributes", _C._jit_attributes(code.capsule))
        object.__setattr__(self, "_script_source", source)
        object.__setattr__(self, "_modes", [])
        for name in [*names, *(n.rpartition(".")[0] for n in code.attributes)]:
            self._part(name, names)
        self._find_modes()

    def _part(self, name, names):
        module = self
        for i, part in enumerate(name.split(".") if name else ()):
            if part not in module._modules:
                path = ".".join(name.split(".")[: i + 1])
                module.add_module(part, TracedModule(names.get(path, "Module")))
            module = module._modules[part]
        return module

    def _find_modes(self):
        """Which attributes are modes of which parts; parts start with the mode that was saved."""
        self._modes.clear()
        for name, i in self._code.attributes.items():
            path, _, last = name.rpartition(".")
            if last == "training":
                part = self._part(path, {})
                Module.__setattr__(part, "training", self._get(i))
                self._modes.append((part, i))

    def _get(self, i):
        return _C._jit_attribute(self._code.capsule, self._attributes, i)

    def _run_method(self, name, /, *args, **kwargs):
        for part, i in self._modes:
            if part.training != self._get(i):
                _C._jit_attribute(self._code.capsule, self._attributes, i, part.training)
        state = self._state()
        before = list(state)
        try:
            return self._code.run(name, state, args, kwargs, self._attributes)
        finally:
            for path, old, new in zip(self._code.paths, before, state, strict=True):
                if new is not old:
                    functools.reduce(lambda m, p: m._modules[p], path[:-1], self)._buffers[
                        path[-1]
                    ] = new

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._run_method("forward", *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        code = self.__dict__.get("_code")
        if code is not None and name in code.attributes and "_attributes" in self.__dict__:
            return self._get(code.attributes[name])
        found = super().__getattr__(name)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        code = self.__dict__.get("_code")
        if code is not None and name in code.attributes and name != "training":
            _C._jit_attribute(code.capsule, self._attributes, code.attributes[name], value)
            return
        super().__setattr__(name, value)

    def train(self, mode: bool = True) -> RecursiveScriptModule:
        """Sets the mode of all parts, which the program asks for."""
        return Module.train(self, mode)

    @property
    def code(self) -> str:
        """The program as text."""
        return self._code.text(next(iter(self._code.inputs)))

    graph = inlined_graph = code

    def save(self, f: FileLike | Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Writes parameters, buffers, attributes and program to a file that jit.load and C++
        programs
        read."""
        self._synced_save(f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """What save writes, as bytes."""
        return self._synced_save(None, _extra_files)

    def _synced_save(self, f, extra_files):
        for part, i in self._modes:
            _C._jit_attribute(self._code.capsule, self._attributes, i, part.training)
        return self._code.save(self._state(), f, extra_files, self._attributes)

    def __deepcopy__(self, memo: Any) -> RecursiveScriptModule:
        import copy

        state = [copy.deepcopy(tensor, memo) for tensor in self._state()]
        made = RecursiveScriptModule(
            self._code, state, self.original_name, self._names(), self._script_source
        )
        copied = _C._jit_copied_attributes(self._code.capsule, self._attributes)
        object.__setattr__(made, "_attributes", copied)
        for (part, _), (mine, _) in zip(made._modes, self._modes, strict=True):
            part.training = mine.training
        memo[id(self)] = made
        return made

    def __copy__(self) -> RecursiveScriptModule:
        raise TypeError("copy: a scripted module is copied with copy.deepcopy")

    def _names(self):
        return ((n, getattr(m, "original_name", "Module")) for n, m in self.named_modules() if n)

    def __reduce__(self) -> Any:
        raise TypeError("scripted modules are not pickled; save them with rushlight.jit.save")


def script_function(fn: Callable[..., Any], example: Any = None) -> ScriptFunction:
    """The function as a program."""
    from rushlight.jit._script.errors import Refusal, ScriptError
    from rushlight.jit._script.program import Program

    program = Program()
    try:
        program.add_method(fn, "forward", example=example)
    except Refusal as why:
        raise ScriptError(f"script: {why}") from None
    return ScriptFunction(program.code(), fn.__name__, fn)


def script_class(cls: type) -> type:
    """The class, after its methods were compiled."""
    from rushlight.jit._script import classes
    from rushlight.jit._script.errors import Refusal, ScriptError

    try:
        return classes.script_class(cls)
    except Refusal as why:
        raise ScriptError(f"script: the class {cls.__name__}: {why}") from None


def script_module(module: Module, frozen: list[str] | None = None) -> RecursiveScriptModule:
    """forward and the exported methods of a module, as a program over its parameters and buffers.

    frozen: parameters, buffers and attributes become constants, but for those with these names.
    """
    from rushlight.jit._script.errors import Refusal, ScriptError
    from rushlight.jit._script.program import Program
    from rushlight.jit._script.source import is_ignored

    rows, aliases = _state_of(module)
    if frozen is not None:
        rows, aliases = [row for row in rows if row[0] in frozen], []
    program = Program(module, rows, aliases)
    program.frozen = frozen
    methods = []
    for name in dir(type(module)):
        found = inspect.getattr_static(type(module), name, None)
        if inspect.isfunction(found) and (name == "forward" or is_ignored(found) == "export"):
            methods.append(name)
    if getattr(type(module), "forward", None) is Module.forward and "forward" in methods:
        methods.remove("forward")
    if not methods:
        raise ScriptError(f"script: {type(module).__name__} has no forward and no exported method")
    from rushlight.jit._script.library import replacement

    try:
        for name in sorted(methods, key=lambda n: n != "forward"):
            fn = replacement(module, name) or getattr(type(module), name)
            program.add_method(fn, name, module)
    except Refusal as why:
        raise ScriptError(f"script: {why}") from None
    names = [(name, type(part).__name__) for name, part in module.named_modules() if name]
    if frozen is not None:
        names = []
    return RecursiveScriptModule(
        program.code(), [row[1] for row in program.rows], type(module).__name__, names, module
    )
