"""Modules for the objects of an archive: parameters, buffers and attributes by name."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor
from rushlight.jit._archive.reader import Archived
from rushlight.jit._archive.syntax import Class, Code
from rushlight.nn import Module, Parameter

__all__ = ["ArchivedModule", "module_of"]

_MOST_DEPTH = 200


class ArchivedModule(Module):
    """A module of an archive. It has its weights; what it does is the program's."""

    def __init__(self, qualified: str, cls: Class | None) -> None:
        super().__init__()
        self._qualified, self._class = qualified, cls

    def _get_name(self) -> str:
        return self._qualified.rpartition(".")[2]


def module_of(root: Any, code: Code) -> ArchivedModule:
    """The module for the object that data.pkl holds."""
    if not isinstance(root, Archived):
        raise RuntimeError(f"jit.load: the archive holds a {type(root).__name__}, not a module")
    return _Builder(code).module(root, 0)


class _Builder:
    def __init__(self, code):
        self.code = code
        self.made: dict[int, ArchivedModule] = {}
        self.tensors: dict[Any, Any] = {}  # parameters that are there already, by their memory

    def module(self, obj, depth):
        if id(obj) in self.made:
            return self.made[id(obj)]
        if depth > _MOST_DEPTH or not isinstance(obj.state, dict):
            raise RuntimeError("jit.load: an object of the archive is no module")
        cls = self.code.find(obj.qualified)
        cls = cls if isinstance(cls, Class) else None
        module = self.made[id(obj)] = ArchivedModule(obj.qualified, cls)
        parameters = set(cls.names["__parameters__"]) if cls else set()
        buffers = set(cls.names["__buffers__"]) if cls else set()
        for name, value in (*(cls.constants.items() if cls else ()), *obj.state.items()):
            if not isinstance(name, str) or "." in name or not name:
                raise RuntimeError(f"jit.load: {name!r:.40} is no name of an attribute")
            self.add(module, name, value, parameters, buffers, depth)
        return module

    def add(self, module, name, value, parameters, buffers, depth):
        if isinstance(value, Archived) and isinstance(value.state, dict):
            module.add_module(name, self.module(value, depth + 1))
        elif isinstance(value, Tensor) and name not in buffers and (
            name in parameters or (module._class is None and value.requires_grad)
        ):  # fmt: skip
            module.register_parameter(name, self.shared(value))
        elif value is None and name in parameters:
            module.register_parameter(name, None)
        elif isinstance(value, Tensor):
            module.register_buffer(name, self.shared(value, False), persistent=name in buffers)
        elif name == "training":
            module.training = value is True
        elif not hasattr(Module, name):
            module.__dict__[name] = self.attribute(value)

    def attribute(self, value):
        """Lists of tensors are, where they can be, lists of parameters."""
        if isinstance(value, list) and value and all(isinstance(v, Tensor) for v in value):
            return [self.tensors.get(_memory(v), v) for v in value]
        return value

    def shared(self, tensor, is_parameter=True):
        key = _memory(tensor)
        if key not in self.tensors or tensor.numel() == 0:
            made = tensor.detach()
            if is_parameter:
                made = Parameter(made, requires_grad=tensor.requires_grad)
            self.tensors[key] = made
        return self.tensors[key]


def _memory(tensor):
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()
