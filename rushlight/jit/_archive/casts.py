"""annotate, unchecked_cast, uninitialized and getattr, as code of archives has them."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.values import NONE, Val, pack, static, type_of

__all__ = ["annotate", "get_attribute", "unchecked_cast", "uninitialized"]


def annotate(c: Any, kind: Any, v: Any) -> Any:
    """The value as one of the type; a tensor of one element becomes a number."""
    wanted = kind.obj.type
    if v.type == t.TENSOR and wanted in (t.INT, t.FLOAT, t.BOOL):
        return c.builtin(f"{wanted}_tensor", v)
    if v.known and v.type is None and v.items is None and isinstance(v.obj, dict):
        return c.as_val(v, wanted)
    if v.items is not None and not v.items:
        return c.as_val(pack([], "list"), wanted)
    return c.as_val(v, wanted) if type_of(v) is not None else v


def unchecked_cast(c: Any, kind: Any, v: Any) -> Any:
    """The value, which TorchScript knows to be of the type here."""
    wanted = kind.obj.type
    if v.type is None or v.type == wanted or v.known:
        return v
    if wanted == t.INT and "dtype" in str(v.type):  # numbers stand for dtypes there
        wanted = t.DTYPE
    return c.narrowed(v, wanted)


def uninitialized(c: Any, kind: Any) -> Val:
    """A value that is never looked at."""
    wanted = kind.obj.type if isinstance(kind, Val) else kind
    if wanted.optional or wanted == t.NONE:
        return Val(wanted, {"is": None}) if wanted != t.NONE else NONE
    plain = {t.INT: 0, t.FLOAT: 0.0, t.BOOL: False, t.STR: ""}
    if wanted in plain:
        return static(plain[wanted])
    if wanted == t.TENSOR:
        return c.builtin("tensor", static(0), NONE, NONE, static(False))
    if wanted.kind == "Tuple":
        return c.as_val(pack([uninitialized(c, item) for item in wanted.items]), wanted)
    if wanted.kind in ("List", "Dict"):
        return c.result(wanted, make=[])
    if wanted == t.DEVICE:
        return static(_C.device("cpu"))
    if wanted == t.NUMBER:
        return static(0)
    return refuse(f"a value of the type {wanted} is not given here")


def get_attribute(c: Any, owner: Any, name: Any) -> Any:
    """getattr(owner, "0")."""
    if not isinstance(name.obj, str) or name.obj.startswith("__"):
        refuse(f"the attribute {name.obj!r} is none that programs have")
    return c.attribute(owner, name.obj)
