"""What scripted programs raise and return, as Python has it."""

from __future__ import annotations

import builtins
import collections
from typing import Any

__all__ = ["Error", "named_tuple", "named_type", "remember_tuple", "script_error"]


class Error(RuntimeError):
    """An error that a scripted program raised. It is of the class that the program named, too."""


_errors: dict[str, type] = {}
_tuples: dict[tuple[str, tuple[str, ...]], Any] = {}


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
    return named_type(name, fields)(*items)
