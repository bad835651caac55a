"""Classes and enumerations of an archive."""

from __future__ import annotations

import ast
import copy
import enum
from typing import Any, cast

from rushlight.jit._archive.syntax import Class, Function, TypeName
from rushlight.jit._script import classes
from rushlight.jit._script.errors import refuse

__all__ = ["Items", "constructor", "enumeration", "is_plain_class"]


def is_plain_class(found: Any) -> bool:
    """A class of the user whose objects the code makes."""
    return isinstance(found, Class) and found.base == ""


def constructor(cls: Class) -> Any:
    """Its __init__ as a function that returns the object."""
    if cls.maker is not None:
        return cls.maker
    function: Any = cls.methods.get("__init__")
    if not isinstance(function, Function) or not function.parameters:
        refuse(f"the class {cls.name} has no __init__ that can be read")
    made: Any = copy.copy(function)
    made.tree = copy.deepcopy(function.tree)
    made.fn, made.constructs, made.fields = made, cls, list(cls.hints)
    made.name = made.__name__ = f"{cls.name}.__init__"
    me, *made.parameters = function.parameters
    made.annotations = {k: v for k, v in function.annotations.items() if k != me}
    made.tree.args.args = made.tree.args.args[1:]
    types = [
        ast.AnnAssign(
            ast.Name(f"{me}.{name}", ast.Store()),
            ast.Constant(cast(Any, TypeName(hint, made.scope))),
            None,
            1,
        )
        for name, hint in cls.hints.items()
    ]
    made.me, made.tree.body = me, [*types, *classes.constructing(made.tree, me, made.fields)]
    ast.fix_missing_locations(made.tree)
    names = {f"{me}.{name}" for name in made.fields}
    made.local_names = {me, *names, *function.local_names}
    cls.maker = made
    return made


def enumeration(cls: Class) -> Any:
    """The Enum: the one of this name and these items that is known here, or one like it."""
    from rushlight.jit._values import known_enum

    if cls.enum is None:
        items = {k: v for k, v in cls.constants.items() if isinstance(v, int | float | str)}
        try:
            if not items or any(k.startswith("_") for k in items):
                raise ValueError("its names are none of an Enum")
            cls.enum = known_enum(cls.name, items) or enum.Enum(cls.name, items)
        except (TypeError, ValueError) as error:
            refuse(f"the Enum {cls.name} cannot be read: {error}")
    return cls.enum


class Items:
    """What the code sees of an Enum: its items, and nothing else."""

    def __init__(self, cls: Class) -> None:
        self._cls = cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in (found := enumeration(self._cls)).__members__:
            raise AttributeError(name)
        return found[name]
