"""Packings in files: which containers the inputs and outputs are packed in.

Nothing is imported for a file: named tuples that are not known become new ones of the same name and
fields, and dataclasses must have been registered under their name before.
"""

from __future__ import annotations

import collections
from typing import Any

from rushlight import _C
from rushlight.export._inputs import Packing
from rushlight.utils._pytree import LeafSpec, TreeSpec

__all__ = ["packing_data", "packing_from", "remember"]

_TYPES: dict[str, type] = {
    "tuple": tuple, "list": list, "dict": dict,
    "OrderedDict": collections.OrderedDict, "deque": collections.deque,
}  # fmt: skip
_registered: dict[str, type] = {}  # dataclasses, by the name that files have
_SETTINGS = ("dtype", "device", "layout", "memory_format")


def remember(cls: type, name: str | None) -> None:
    """A dataclass that files may name."""
    name = name or f"{cls.__module__}.{cls.__qualname__}"
    if _registered.get(name, cls) is not cls:
        raise ValueError(f"register_dataclass: the name '{name}' is that of another class")
    _registered[name] = cls


def packing_data(packing: Packing) -> dict[str, Any]:
    """As JSON."""
    return {
        "spec": _spec_data(packing.spec),
        "fixed": [_value_data(v) for v in packing.fixed],
        "tensors": packing.tensors,
    }


def _spec_data(spec):
    if spec.is_leaf():
        return None
    items = [_spec_data(child) for child in spec.children_specs]
    for name, cls in _TYPES.items():
        if spec.type is cls:
            return {"type": name, "context": spec.context, "items": items}
    for name, cls in _registered.items():
        if spec.type is cls:
            return {"type": "dataclass", "name": name, "items": items}
    if issubclass(spec.type, tuple) and hasattr(spec.type, "_fields"):
        fields = list(spec.type._fields)
        return {"type": "named", "name": spec.type.__name__, "fields": fields, "items": items}
    raise TypeError(
        f"export.save: files do not know the container {spec.type.__name__}; use tuples, lists, "
        "dicts, named tuples, and dataclasses after export.register_dataclass"
    )


def _value_data(value):
    for name in _SETTINGS:
        if isinstance(value, getattr(_C, name)):
            return {name: str(value).rpartition(".")[2] if name != "device" else str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float):
        return {"float": value.hex()}
    return value


def packing_from(data: Any) -> Packing:
    """From JSON; raises ValueError where it is none."""
    if not isinstance(data, dict) or set(data) != {"spec", "fixed", "tensors"}:
        raise ValueError("a packing has a spec, fixed values and tensors")
    spec = _spec_from(data["spec"], 0)
    fixed, tensors = data["fixed"], data["tensors"]
    if not isinstance(fixed, list) or len(fixed) != spec.num_leaves:
        raise ValueError("a packing has one value for each leaf")
    if not isinstance(tensors, list) or not all(
        type(i) is int and 0 <= i < len(fixed) for i in tensors
    ) or tensors != sorted(set(tensors)):  # fmt: skip
        raise ValueError("the tensors of a packing are leaves, in order")
    return Packing.made(spec, [_value_from(v) for v in fixed], tensors)


def _spec_from(data, depth):
    if data is None:
        return LeafSpec()
    if depth > 32 or not isinstance(data, dict) or not isinstance(data.get("items"), list):
        raise ValueError("a container was expected")
    children = tuple(_spec_from(item, depth + 1) for item in data["items"])
    count = sum(c.num_leaves for c in children)
    kind, context = data.get("type"), data.get("context")
    if kind == "dataclass":
        cls = _registered.get(data.get("name"))
        if cls is None:
            raise ValueError(
                f"it has the dataclass {data.get('name')!r}; register it with "
                "export.register_dataclass before"
            )
        return TreeSpec(cls, None, children, count)
    if kind == "named":
        from rushlight.jit._values import named_type

        fields = data.get("fields")
        if not isinstance(fields, list) or len(fields) != len(children):
            raise ValueError("a named tuple has one field for each item")
        cls = named_type(str(data.get("name")), [str(f) for f in fields])
        return TreeSpec(cls, cls, children, count)
    if kind not in _TYPES:
        raise ValueError(f"there is no container {kind!r}")
    if kind in ("dict", "OrderedDict") and (
        not isinstance(context, list) or len(context) != len(children)
        or not all(isinstance(k, str | int | float | bool | None) for k in context)
    ):  # fmt: skip
        raise ValueError("a dict has one key for each item")
    return TreeSpec(_TYPES[kind], context, children, count)


def _value_from(value):
    if isinstance(value, dict):
        if len(value) != 1:
            raise ValueError("a value was expected")
        ((kind, text),) = value.items()
        if not isinstance(text, str):
            raise ValueError("a value was expected")
        if kind == "bytes":
            return bytes.fromhex(text)
        if kind == "float":
            return float.fromhex(text)
        if kind == "device":
            return _C.device(text)
        found = getattr(_C, text, None)
        if kind not in _SETTINGS or not isinstance(found, getattr(_C, kind)):
            raise ValueError(f"there is no {kind} {text!r}")
        return found
    if isinstance(value, list):
        raise ValueError("a value was expected")
    return value
