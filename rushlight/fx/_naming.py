"""How functions and types are spelled in generated code and in printed graphs."""

from __future__ import annotations

import builtins
import inspect
import keyword
import operator
import re
import sys
from collections.abc import Callable
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

# Where an operator of the library is looked for, the shortest name first.
_HOMES = ("", ".nn.functional", ".linalg", ".fft", ".special", ".nn.init", "._C")


def package_name() -> str:
    """ "torch" where Rushlight answers to that name, else "rushlight"."""
    as_torch = sys.modules.get("rushlight.as_torch")
    return "torch" if as_torch is not None and as_torch.is_installed() else "rushlight"


def spelled(dotted: str) -> str:
    """A name of ours as the program spells it."""
    if dotted == "rushlight" or dotted.startswith("rushlight."):
        return package_name() + dotted[len("rushlight") :]
    return dotted


def is_ours(dotted: str) -> bool:
    """Whether a dotted name begins with the library's name, under either spelling."""
    return dotted.partition(".")[0] in ("rushlight", package_name())


def _public_home(func: Any, name: str) -> str | None:
    """The public module of the library that has this very object under its name."""
    for home in _HOMES:
        module = sys.modules.get("rushlight" + home)
        if module is not None and getattr(module, name, None) is func:
            return "rushlight" + home
    return None


def _module_of(func: Any) -> str | None:
    module = getattr(func, "__module__", None)
    if module is None:  # a method of a builtin class, such as torch.Generator's
        owner = getattr(func, "__objclass__", None) or getattr(func, "__self__", None)
        module = getattr(owner, "__module__", None)
    return module


def get_qualified_name(func: Callable[..., Any] | str) -> str:
    """The dotted name under which generated code finds a function."""
    if isinstance(func, str):
        return func
    name = getattr(func, "__name__", None)
    if name is None:  # a callable object
        return get_qualified_name(type(func))
    if getattr(builtins, name, None) is func:
        return name
    if isinstance(func, (MethodDescriptorType, WrapperDescriptorType)):
        owner = func.__objclass__
        return f"{spelled(owner.__module__)}.{owner.__name__}.{name}"
    if name == "<lambda>":  # a lambda may have been bound to a name of its module
        for found, value in func.__globals__.items():
            if value is func:
                name = found
                break
    home = _public_home(func, name)
    if home is None:
        home = _module_of(func) or ""
        home = {"_operator": "operator"}.get(home, home)
        if isinstance(func, FunctionType) and home.startswith("rushlight"):
            qualified = func.__qualname__
            if "<locals>" not in qualified:
                name = qualified
    return f"{spelled(home)}.{name}" if home else name


def type_repr(obj: Any) -> str:
    """A type as annotations spell it."""
    if isinstance(obj, type) and not hasattr(obj, "__origin__"):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{spelled(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, FunctionType):
        return obj.__name__
    return repr(obj)


def snake_case(text: str) -> str:
    """FooBar as foo_bar."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text).lower()


def is_identifier(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def attribute_path(base: str, target: str) -> str:
    """self.seq.0 as code that Python accepts."""
    found = base
    for part in target.split("."):
        found = f"{found}.{part}" if part.isidentifier() else f'getattr({found}, "{part}")'
    return found


class Namespace:
    """Names that stand for one object each."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}  # {object: its name}
        self._used: set[str] = set()
        self._last: dict[str, int] = {}  # {a name without its number: the last number given}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A name like the candidate that nobody else has; the object's own when it has one."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate)
        if not name or name[0].isdigit():
            name = f"_{name}"
        numbered = re.fullmatch(r"(.*)_(\d+)", name)
        base, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        number = number or self._last.get(base, 0)
        while name in self._used or self._is_taken(name, obj):
            number += 1
            name = f"{base}_{number}"
        self._last[base] = number
        self._used.add(name)
        if obj is not None:
            self._names[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """The object has this name from now on."""
        if self._names.setdefault(obj, name) != name:
            raise AssertionError(f"{name}: the object already has the name {self._names[obj]}")

    def reserve(self, name: str, obj: Any) -> None:
        """The object has this very name, whatever it had before."""
        self._names[obj] = name
        self._used.add(name)

    def forget(self, name: str) -> None:
        """The name may be given again."""
        self._used.discard(name)

    @staticmethod
    def _is_taken(name: str, obj: Any) -> bool:
        """Python's own names; those of the generated code's module are for their objects alone."""
        if keyword.iskeyword(name):
            return True
        if name in builtins.__dict__:
            return builtins.__dict__[name] is not obj
        return name in RESERVED


# What every generated module knows.
RESERVED = frozenset("inf nan NoneType torch rushlight device fx_pytree pytree".split())

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
}  # fmt: skip
_IN_PLACE = {
    "iadd": "+=", "iand": "&=", "ifloordiv": "//=", "ilshift": "<<=", "imod": "%=", "imul": "*=",
    "imatmul": "@=", "ior": "|=", "ipow": "**=", "irshift": ">>=", "isub": "-=",
    "itruediv": "/=", "ixor": "^=",
}  # fmt: skip
# {function of the module operator: how it is written}
OPERATORS = {getattr(operator, name): f"{{}} {sign} {{}}" for name, sign in _INFIX.items()} | {
    operator.pos: "+{}", operator.neg: "-{}", operator.invert: "~{}", operator.getitem: "{}[{}]",
}  # fmt: skip
IN_PLACE = {getattr(operator, name): sign for name, sign in _IN_PLACE.items()}
# Those that a Proxy answers to.
REFLECTABLE = tuple(_INFIX)[:13]
MAGIC = (*_INFIX, "pos", "neg", "invert", "getitem")


def signature_or_none(func: Any) -> inspect.Signature | None:
    """The signature, where Python can tell."""
    try:
        return inspect.signature(func)
    except (TypeError, ValueError):
        return None
