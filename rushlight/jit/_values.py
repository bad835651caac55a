"""What scripted programs raise and return, as Python has it."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import enum
import weakref
from typing import Any

__all__ = [
    "Error",
    "made_object",
    "named_tuple",
    "named_type",
    "parts_of",
    "remember_class",
    "remember_enum",
    "remember_tuple",
    "script_error",
]


class Error(RuntimeError):
    """An error that a scripted program raised. It is of the class that the program named, too."""


_errors: dict[str, type] = {}
_tuples: dict[tuple[str, tuple[str, ...]], Any] = {}
_enums: dict[str, type[enum.Enum]] = {}
_classes: weakref.WeakValueDictionary[tuple[str, tuple[str, ...]], type] = (
    weakref.WeakValueDictionary()
)
_fields: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()
_kept: list[type] = []  # classes that stand for those of loaded programs


def script_error(class_name: str, message: str) -> Exception:
    """The exception for `raise class_name(message)` in a program."""
    found = _errors.get(class_name)
    if found is None:
        from rushlight import _C

        base = getattr(builtins, class_name, None) or getattr(_C, class_name, None)
        if not (isinstance(base, type) and issubclass(base, Exception)):
            base = RuntimeError
        # KeyError and others show their argument as repr; a program's message is shown as it is.
        bases = (Error,) if issubclass(Error, base) else (Error, base)
        found = type(class_name, bases, {"__str__": lambda self: self.args[0]})
        _errors[class_name] = found
    return found(message)


def remember_tuple(cls: Any) -> None:
    """Programs give this NamedTuple where they return one of its name and fields."""
    _tuples[cls.__name__, cls._fields] = cls


def named_type(name: str, fields: list[str]) -> Any:
    """The class of NamedTuples with this name and these fields."""
    key = (name, tuple(fields))
    if key not in _tuples:
        _tuples[key] = collections.namedtuple(name, fields)
    return _tuples[key]


def named_tuple(name: str, fields: list[str], items: tuple[Any, ...]) -> Any:
    """A NamedTuple that a program returned, or the item of an Enum."""
    found = _enums.get(name) if fields == ["name", "value"] else None
    if found is not None and items[0] in found.__members__:
        return found[items[0]]
    return named_type(name, fields)(*items)


def remember_enum(cls: type[enum.Enum]) -> None:
    """Programs give items of this Enum where they return one of its name."""
    _enums[cls.__name__] = cls


def known_enum(name: str, items: dict[str, Any]) -> type[enum.Enum] | None:
    """The Enum of this name and these items that scripts know, or None."""
    found = _enums.get(name)
    same = found is not None and {i.name: i.value for i in found} == items
    return found if same else None


def remember_class(cls: type, fields: tuple[str, ...]) -> None:
    """Programs take objects of this class, and give them where they return one of its name and
    attributes."""
    _classes[cls.__name__, tuple(fields)] = cls
    _fields[cls] = tuple(fields)


def made_object(name: str, fields: list[str], items: tuple[Any, ...]) -> Any:
    """An object that a program returned. Where the class is not known, as in a process that loaded
    the program from a file, it is of one that has the attributes only."""
    cls = _classes.get((name, tuple(fields)))
    if cls is None:
        cls = dataclasses.make_dataclass(name, fields, eq=False)
        _classes[name, tuple(fields)] = cls
        _fields[cls] = tuple(fields)
        _kept.append(cls)
    made = object.__new__(cls)
    for field, item in zip(fields, items, strict=True):
        object.__setattr__(made, field, item)
    return made


def parts_of(obj: Any) -> tuple[str, tuple[str, ...], tuple[Any, ...], bool] | None:
    """(class, attributes, values, whether it is an object) of an object of a class that programs
    know, or of an item of an Enum, which is a pair; None for others."""
    if isinstance(obj, enum.Enum):
        return type(obj).__name__, ("name", "value"), (obj.name, obj.value), False
    fields = _fields.get(type(obj))
    if fields is None:
        return None
    missing = [name for name in fields if not hasattr(obj, name)]
    if missing:
        raise TypeError(f"an object of {type(obj).__name__} has no attribute '{missing[0]}'")
    return type(obj).__name__, fields, tuple(getattr(obj, name) for name in fields), True
