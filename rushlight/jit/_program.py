"""A program's code, as Python holds it, and the classes that run it."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor
from rushlight.jit._modules import ScriptModule
from rushlight.nn import Parameter
from rushlight.types import FileLike

__all__ = ["ScriptFunction", "TopLevelTracedModule", "TracedModule"]


class Code:
    """Instructions, constants, and the names of parameters and buffers. It never changes, so copies
    of a module share it."""

    def __init__(self, capsule):
        about = _C._jit_about(capsule)
        self.capsule = capsule
        self.state = about["state"]  # (name, is_parameter, requires_grad, persistent)
        self.aliases = about["aliases"]  # (name, which of the state, before which it stands)
        self.inputs = {name: inputs for name, inputs, *_ in about["methods"]}  # {method: names}
        # Of scripts: {method: {input: default}}
        self.defaults = {row[0]: row[2] for row in about["methods"] if len(row) > 2}
        self.attributes = {name: i for i, (name, _) in enumerate(about["attributes"])}
        self.constants = about["constants"]
        self.training, self.by_mode = about["training"], about["by_mode"]
        self.paths = [name.split(".") for name, *_ in self.state]
        self.title = ""  # the name of the function or module that it was made of

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("traced programs are not pickled; save them with rushlight.jit.save")

    def ordered(self, method, args, kwargs):
        """The inputs in the program's order, from those of a call."""
        names = self.inputs[method]
        if not kwargs and len(args) == len(names):
            return args
        given = dict(zip(names, args, strict=False))
        defaults = self.defaults.get(method)
        if defaults:
            given = {**{k: v for k, v in defaults.items() if k not in kwargs}, **given}
        count = (
            len(args) + len(kwargs) + (len(set(given) - set(names[: len(args)])) if defaults else 0)
        )
        given.update(kwargs)
        if len(args) > len(names) or len(given) != count or set(given) != set(names):
            raise TypeError(
                f"{method}: the program has the inputs {', '.join(names) or '(none)'}; "
                f"got {len(args)} by position and {', '.join(kwargs) or 'none'} by name"
            )
        return tuple(given[name] for name in names)

    def run(self, method, state, args, kwargs, attributes=None):
        """Runs a method. In `state`, a list, what the program replaced is new afterwards."""
        inputs = self.ordered(method, args, kwargs)
        if self.defaults and _C._jit_is_tracing():
            from rushlight.jit._calls import call_traced

            def run():
                return _C._jit_run(self.capsule, method, state, attributes, tuple(inputs))

            return call_traced(self, method, state, inputs, attributes, run)
        return _C._jit_run(self.capsule, method, state, attributes, tuple(inputs))

    def text(self, method="forward"):
        return _C._jit_text(self.capsule, method)

    def save(self, state, f, extra_files, attributes=None):
        """To a path, to an open file, or (f is None) to bytes."""
        import os

        extra = {}
        for name, content in (extra_files or {}).items():
            if not isinstance(content, str | bytes | bytearray | memoryview):
                raise TypeError(
                    f"save: extra files are texts or bytes, got {type(content).__name__} for "
                    f"{name!r}"
                )
            extra[name] = content.encode() if isinstance(content, str) else bytes(content)
        if f is None or hasattr(f, "write"):
            data = _C._jit_save(self.capsule, state, attributes, None, extra)
            return data if f is None else f.write(data)
        return _C._jit_save(self.capsule, state, attributes, os.fsencode(f), extra)


class TracedModule(ScriptModule):
    """A part of a traced module, with its parameters and buffers; the program runs as a whole.

    Arguments:
        original_name: the name of the class that the part had.

    Example:
        >>> net = rl.jit.trace(nn.Sequential(nn.Linear(2, 1)), rl.ones(1, 2))
        >>> isinstance(net.get_submodule("0"), rl.jit.TracedModule)
        True
        >>> rl.jit.TracedModule("Linear").original_name
        'Linear'
    """

    def __init__(self, original_name: str = "Module") -> None:
        super().__init__()
        self.original_name = original_name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotImplementedError(
            f"{self.original_name}: this is a part of a traced program, which runs as a whole; "
            "call the module that was traced, or trace this part by itself"
        )

    @property
    def code(self) -> str:
        """Only the whole has a program."""
        self._refuse()

    graph = inlined_graph = code

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


class TopLevelTracedModule(TracedModule):
    """A module whose methods are programs; made by jit.trace, jit.trace_module and jit.load.

    It has the parameters, buffers and state dict of the module that was traced, trains like any
    other, and goes on doing what that one did with the example inputs.

    Arguments:
        code: the program.
        state: its parameters and buffers, in the program's order.
        original_name: the name of the class of the module that was traced.
        names: pairs (path, name of the class) of its parts.

    Example:
        >>> net = rl.jit.trace(nn.Linear(2, 1), rl.ones(1, 2))
        >>> isinstance(net, rl.jit.TopLevelTracedModule), net.original_name
        (True, 'Linear')
        >>> state = list(net.parameters())
        >>> rl.jit.TopLevelTracedModule(net._code, state, "Again", names=[]).original_name
        'Again'
    """

    def __init__(
        self, code: Code, state: list[Tensor], original_name: str, names: Any = ()
    ) -> None:
        super().__init__(original_name)
        self._code = code
        code.title = code.title or original_name
        self.training = code.training
        names = dict(names)  # {dotted name of a part: the name of its class}
        # In the order of the module that was traced, shared tensors where their names stood.
        order = [(i, 1, i, row[0]) for i, row in enumerate(code.state)]
        order += [(before, 0, which, name) for name, which, before in code.aliases]
        for _, _, which, name in sorted(order, key=lambda item: item[:2]):
            _, is_parameter, _, persistent = code.state[which]
            self._add(name, state[which], is_parameter, persistent, names)

    def _add(self, name, tensor, is_parameter, persistent, names):
        *path, last = name.split(".")
        module = self
        for i, part in enumerate(path):
            if part not in module._modules:
                child = TracedModule(names.get(".".join(path[: i + 1]), "Module"))
                child.training = self.training
                module.add_module(part, child)
            module = module._modules[part]
        if is_parameter:
            module.register_parameter(last, tensor)
        else:
            module.register_buffer(last, tensor, persistent)

    def _state(self):
        """The parameters and buffers as they are now: programs may replace them at any time."""
        found = []
        for *path, last in self._code.paths:
            module = self
            for part in path:
                module = module._modules[part]
            tensor = module._parameters.get(last)
            if tensor is None:
                tensor = module._buffers.get(last)
            if tensor is None:
                name = ".".join((*path, last))
                raise RuntimeError(f"{self.original_name}: '{name}' is None, and the traced "
                                   "program needs it")  # fmt: skip
            found.append(tensor)
        return found

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._code.run("forward", self._state(), args, kwargs)

    def _run_method(self, name, /, *args, **kwargs):
        return self._code.run(name, self._state(), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        code = self.__dict__.get("_code")
        if code is not None and name in code.inputs:
            return functools.partial(self._run_method, name)
        return super().__getattr__(name)

    def _apply(self, fn, recurse=True):
        first = next(iter([*self._state(), *self._code.constants]), None)
        before = first.device if first is not None else None  # a parameter moves in place
        super()._apply(fn, recurse)
        if first is not None:
            now = fn(first) if not self._code.paths else self._state()[0]
            if now.device != before:
                moved = _C._jit_moved(self._code.capsule, before, now.device)
                self._code = Code(moved)
        return self

    def train(self, mode: bool = True) -> TopLevelTracedModule:
        """Sets the mode of the parts. The program itself does what it did when it was traced."""
        if bool(mode) != self._code.training and self._code.by_mode:
            traced, wanted = ("training", "eval") if self._code.training else ("eval", "training")
            warnings.warn(
                f"train: the program was traced in {traced} mode and keeps it (dropout, batch "
                f"norm); trace the module in {wanted} mode for the other one",
                stacklevel=_outside_level(),
            )
        return super().train(mode)

    @property
    def code(self) -> str:
        """The program as text."""
        return self._code.text()

    graph = inlined_graph = code

    def save(self, f: FileLike | Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Writes parameters, buffers and program to a file that jit.load and C++ programs read."""
        self._code.save(self._state(), f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """What save writes, as bytes."""
        return self._code.save(self._state(), None, _extra_files)


class ScriptFunction:
    """A function whose body is a program; made by jit.trace and jit.script.

    Arguments:
        code: the program.
        name: what the function is called.
        source: the Python function that it was made of; its name and docstring are taken over.

    Example:
        >>> f = rl.jit.trace(lambda x: x * 2 + 1, rl.ones(2))
        >>> isinstance(f, rl.jit.ScriptFunction), f(rl.tensor([1.0, 2.0]))
        (True, tensor([3., 5.]))
        >>> rl.jit.ScriptFunction(f._code, "again", source=None).name
        'again'
    """

    def __init__(self, code: Code, name: str, source: Any = None) -> None:
        self._code = code
        code.title = code.title or name
        # Of scripted modules that a trace calls: what they keep from call to call.
        self._attributes = _C._jit_attributes(code.capsule) if code.attributes else None
        self.__name__ = self.name = name
        if source is not None:
            functools.update_wrapper(self, source)
            self.__dict__.pop("__wrapped__", None)  # it is no wrapper: it runs by itself
            self._rushlight_source = source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._code.run("forward", [], args, kwargs, self._attributes)
        except Exception as error:
            # Programs know the method by this name; whoever calls knows the function's.
            text = error.args[0] if error.args else None
            if isinstance(text, str) and text.startswith("forward: "):
                error.args = (self.name + text.removeprefix("forward"), *error.args[1:])
            raise

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method of a class: the instance is its first argument."""
        return self if instance is None else functools.partial(self, instance)

    @property
    def code(self) -> str:
        """The program as text."""
        return self._code.text()

    graph = inlined_graph = code

    def save(self, f: FileLike | Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Writes the program to a file that jit.load and C++ programs read."""
        self._code.save([], f, _extra_files, self._attributes)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """What save writes, as bytes."""
        return self._code.save([], None, _extra_files, self._attributes)


def loaded_module(code, state):
    """A module for what a file holds."""
    tensors = [
        Parameter(tensor, requires_grad=needs) if is_parameter else tensor
        for (_, is_parameter, needs, _), tensor in zip(code.state, state, strict=True)
    ]
    if code.defaults:
        from rushlight.jit._scripted import RecursiveScriptModule

        return RecursiveScriptModule(code, tensors, "Program")
    return TopLevelTracedModule(code, tensors, "Program")


def _outside_level():
    """The stacklevel of the line that called into this package."""
    level, frame = 1, inspect.currentframe().f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith("rushlight."):
        level, frame = level + 1, frame.f_back
    return level
