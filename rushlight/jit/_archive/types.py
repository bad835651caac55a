"""Types as TorchScript writes them."""

from __future__ import annotations

import ast
from typing import Any

from rushlight.jit._script import types as t
from rushlight.jit._script.classes import enum_type
from rushlight.jit._script.errors import refuse

__all__ = ["named_tuple_class", "type_from"]

_SIMPLE = {
    "Tensor": t.TENSOR, "int": t.INT, "float": t.FLOAT, "bool": t.BOOL, "str": t.STR,
    "NoneType": t.NONE, "None": t.NONE, "number": t.NUMBER, "Device": t.DEVICE, "Scalar": t.NUMBER,
}  # fmt: skip


def type_from(node: ast.expr | None, code: Any) -> Any:
    """The type that an annotation names; None where it is one that programs have not."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and node.value is None:
        return t.NONE
    if isinstance(node, ast.Name):
        return _SIMPLE.get(node.id)
    if isinstance(node, ast.Attribute):
        return _class_type(ast.unparse(node), code)
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if node.value.id == "Final":
        return type_from(items[0], code)
    inner = [type_from(item, code) for item in items]
    if any(x is None for x in inner):
        return None
    if node.value.id == "Optional":
        return t.union(t.NONE, inner[0])
    made: dict[str, Any] = {"List": t.List, "Dict": t.Dict, "Tuple": t.Tuple, "Union": t.union}
    return made[node.value.id](*inner) if node.value.id in made else None


def _class_type(qualified, code):
    from rushlight.jit._archive.objects import enumeration, is_plain_class

    found = code.find(qualified)
    if is_plain_class(found):
        return _object_type(found, code)
    if getattr(found, "base", None) == "Enum":
        return enum_type(enumeration(found))
    cls = named_tuple_class(qualified, code)
    if cls is None:
        return None
    items = [type_from(node, code) for node in cls.hints.values()]
    if None in items:
        return None
    return t.T("Tuple", items, tuple(cls.hints), cls.name)


def _object_type(cls, code):
    if cls.under_way:
        refuse(f"the class {cls.name} holds objects of its own, which programs cannot")
    cls.under_way = True
    try:
        items = [type_from(node, code) for node in cls.hints.values()]
    finally:
        cls.under_way = False
    return None if None in items else t.T("Object", items, tuple(cls.hints), cls.name, cls)


def named_tuple_class(qualified: str, code: Any) -> Any:
    """The NamedTuple of a name, or None."""
    from rushlight.jit._archive.syntax import Class

    found = code.find(qualified)
    return found if isinstance(found, Class) and found.base == "NamedTuple" else None


def wanted_type(node: Any, code: Any) -> Any:
    """As type_from; refuses what is none."""
    found = type_from(node, code)
    if found is None:
        refuse(f"the type {ast.unparse(node)} is none that programs have")
    return found
