"""What a module brings to its program: parameters, buffers, attributes."""

from __future__ import annotations

import inspect

from rushlight import _C
from rushlight._annotations import own_annotations
from rushlight.jit._script import classes
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import ScriptError, refuse
from rushlight.jit._script.values import NONE, Val, describe, static


class State:
    """Tensors and attributes of the modules of one program."""

    def __init__(self, root=None, rows=(), aliases=()):
        self.root, self.rows, self.aliases = root, list(rows), list(aliases)
        self.state = {id(row[1]): i for i, row in enumerate(self.rows)}
        self.constants, self.attributes = [], []
        self.constant_of, self.attribute_of = {}, {}
        self.kept = list(rows)  # what ids stand for
        self.frozen = (
            None  # names of attributes that stay; all else is a constant. None: nothing is
        )
        self.paths = {}
        if root is not None:
            for name, part in root.named_modules():
                self.paths.setdefault(id(part), name)

    def tensor(self, tensor):
        """A tensor that is there now: a parameter or buffer of the module, or a constant."""
        if id(tensor) in self.state:
            return Val(t.TENSOR, {"state": self.state[id(tensor)]})
        if tensor.requires_grad and self.frozen is None:
            refuse(
                "a tensor from outside requires a gradient",
                "make it a parameter of the module, or an argument",
            )
        if id(tensor) not in self.constant_of:
            self.constant_of[id(tensor)] = len(self.constants)
            kept = tensor.detach()
            self.constants.append(kept if self.frozen is None else kept.clone())
            self.kept.append(tensor)
        return Val(t.TENSOR, {"constant": self.constant_of[id(tensor)]})

    def module_attribute(self, module, name):
        from rushlight.nn import Module

        tensors = module._parameters if name in module._parameters else module._buffers
        if name in tensors:
            return NONE if tensors[name] is None else self.tensor(tensors[name])
        if name in module._modules:
            return static(module._modules[name])
        if name == "training" and self.frozen is not None:
            return static(module.training)
        if name == "training":
            return self.attribute(module, "training", t.BOOL)
        found = inspect.getattr_static(type(module), name, None)
        if isinstance(found, property):
            return self._property(module, found)
        if not hasattr(module, name):
            refuse(f"{type(module).__name__} has no attribute '{name}'")
        value = getattr(module, name)
        if (
            inspect.ismethod(value)
            or isinstance(value, Module)
            or (callable(value) and t.of_object(value) is None)
        ):
            return Val(obj=value)
        path = f"{self.paths.get(id(module), '')}.{name}".lstrip(".")
        if self.is_library(module) or (self.frozen is not None and path not in self.frozen):
            return self.constant(value)
        hint, final = self.hint(module, name)
        if final or name in getattr(module, "__constants__", ()):
            return self.constant(value)
        if hint is None and value is None:
            return NONE
        kind = hint or t.of_object(value)
        if kind is None:
            return Val(obj=value)
        return self.attribute(module, name, kind)

    def _property(self, module, found):
        caller = self.under_way[-1][1]
        if self.is_library(module):
            value = getattr(module, found.fget.__name__)
            return caller.opened(static(value))
        return self.call_function(caller, found.fget, [static(module)], {})

    def constant(self, value):
        return self.tensor(value) if isinstance(value, _C.Tensor) else static(value)

    @staticmethod
    def is_library(module):
        return type(module).__module__.split(".")[0] == "rushlight"

    @staticmethod
    def hint(module, name):
        """(the annotated type or None, is it Final)."""
        import sys
        import typing

        for cls in type(module).__mro__:
            found = own_annotations(cls).get(name)
            if found is None:
                continue
            if cls.__module__.split(".")[0] == "rushlight":
                return None, True  # a class derived from a layer of ours: what layers are made with
            scope = vars(sys.modules.get(cls.__module__, object))
            text = found if isinstance(found, str) else ""
            if found is typing.Final or typing.get_origin(found) is typing.Final or "Final" in text:
                return None, True
            return t.of_annotation(found, dict(scope)), False
        return None, False

    def attribute(self, module, name, kind):
        key = (id(module), name)
        if key not in self.attribute_of:
            if id(module) not in self.paths:
                refuse(
                    f"{type_name(module)} is no part of the module that is scripted",
                    "register it as a submodule",
                )
            path = self.paths[id(module)]
            self.attribute_of[key] = len(self.attributes)
            self.attributes.append(
                (f"{path}.{name}" if path else name, kind, getattr(module, name))
            )
        return Val(kind, {"attribute": self.attribute_of[key]})

    def set_attribute(self, caller, owner, name, v):
        from rushlight.nn import Module

        if not (owner.known and isinstance(owner.obj, Module)):
            plain = owner.known and hasattr(owner.obj, name)
            refuse(
                f"the attribute '{name}' of {describe(owner)} cannot be set",
                "give its class to jit.script" if plain else None,
            )
        module = owner.obj
        path = f"{self.paths.get(id(module), '')}.{name}".lstrip(".")
        if self.frozen is not None and path not in self.frozen:
            refuse(
                f"'{name}' is assigned to, and a frozen program has constants only",
                f"freeze(..., preserved_attrs=['{path}'])",
            )
        if module._buffers.get(name) is not None:
            caller.emit(
                set_state=self.tensor(module._buffers[name]).operand["state"],
                value=caller.as_type(v, t.TENSOR)[0],
            )
            return
        if name in module._parameters:
            refuse(
                f"the parameter '{name}' cannot be replaced in a program", "write to it in place"
            )
        if name in module._modules:
            refuse(f"the module '{name}' cannot be replaced in a program")
        if not hasattr(module, name):
            refuse(
                f"{type(module).__name__} has no attribute '{name}'", "give it a value in __init__"
            )
        hint, final = self.hint(module, name)
        if final or name in getattr(module, "__constants__", ()):
            refuse(f"the attribute '{name}' is a constant and cannot be set")
        place = self.attribute(
            module,
            name,
            hint
            or t.of_object(getattr(module, name))
            or refuse(f"the attribute '{name}' has no type of programs"),
        )
        caller.emit(
            set_attribute=place.operand["attribute"], value=caller.as_type(v, place.type)[0]
        )


def type_name(module):
    return type(module).__name__


def attribute_value(v):
    """A value as program.json has it."""
    if isinstance(v, _C.Tensor):
        raise ScriptError(
            "script: an attribute that holds tensors from the start is not there in programs; "
            "register them as buffers"
        )
    if isinstance(v, list | tuple):
        display = "list" if isinstance(v, list | _C.Size) else "tuple"
        return {display: [attribute_value(x) for x in v]}
    if classes.is_enum_member(v):
        return {"tuple": [v.name, attribute_value(v.value)]}
    kind = classes.type_of_scripted(type(v))
    if kind is not None:
        parts = [[name, attribute_value(getattr(v, name))] for name in kind.fields]
        return {"object": [kind.cls, *parts]}
    if isinstance(v, dict):
        return {"dict": [[attribute_value(k), attribute_value(x)] for k, x in v.items()]}
    return static(v).operand["is"]
