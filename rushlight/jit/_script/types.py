"""Types of programs; their text is that of csrc/jit/type.h."""

from __future__ import annotations

import ast
import collections.abc
import enum
import inspect
import itertools
import textwrap
import types
import typing
import weakref

from rushlight import _C
from rushlight.jit._script import classes
from rushlight.jit._script.errors import refuse

ORDER = ["None", "Tensor", "bool", "int", "float", "str", "dtype", "Device", "layout",
          "memory_format", "Tuple", "List", "Dict", "Object"]  # fmt: skip


class T:
    """A type: its kind, the types in it, and for a NamedTuple or an object its class and fields."""

    __slots__ = ("_python", "cls", "fields", "items", "kind", "open")

    def __init__(self, kind, items=(), fields=(), cls=None, python=None):
        self.kind, self.items, self.fields, self.cls = kind, tuple(items), tuple(fields), cls
        # Of an object: the class itself, which has the methods, and is not kept alive by its types.
        self._python = None if python is None else weakref.ref(python)
        # An empty list or dict without annotation: the first item that it gets tells its type.
        self.open = False

    def __str__(self):
        if self.fields or self.kind == "Object":
            inner = "".join(f"; {f}: {t}" for f, t in zip(self.fields, self.items, strict=True))
            word = "Object" if self.kind == "Object" else "NamedTuple"
            return f"{word}[{self.cls}{inner}]"
        if self.kind == "Union" and self.items[0].kind == "None" and len(self.items) == 2:
            return f"Optional[{self.items[1]}]"
        if not self.items:
            return "Tuple[()]" if self.kind == "Tuple" else self.kind
        return f"{self.kind}[{', '.join(map(str, self.items))}]"

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, T) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))

    @property
    def python(self):
        return self._python()

    @property
    def optional(self):
        return self.kind == "Union" and self.items[0].kind == "None"


NONE, TENSOR, BOOL, INT, FLOAT, STR = map(T, ("None", "Tensor", "bool", "int", "float", "str"))
DTYPE, DEVICE, LAYOUT, FORMAT = map(T, ("dtype", "Device", "layout", "memory_format"))
NUMBER = T("Union", (BOOL, INT, FLOAT))
NUMBERS = (BOOL, INT, FLOAT)


def List(item):
    return T("List", (item,))


def Dict(key, item):
    if key.kind not in ("int", "str", "float", "bool"):
        refuse(f"keys of a dict are ints, floats, bools or strings, not {key}")
    return T("Dict", (key, item))


def Tuple(*items):
    return T("Tuple", items)


def union(*given):
    """One type that is any of these; refuses what values could not tell apart."""
    flat = []
    for t in given:
        for one in t.items if t.kind == "Union" else (t,):
            if one not in flat:
                flat.append(one)
    flat.sort(key=lambda t: ORDER.index(t.kind))
    for a, b in itertools.pairwise(flat):
        if a.kind == b.kind:
            refuse(f"a value cannot be {a} in one case and {b} in another")
    return flat[0] if len(flat) == 1 else T("Union", flat)


def without(t, out):
    """What is left of a union when it is none of `out`; None where nothing is."""
    left = [one for one in (t.items if t.kind == "Union" else (t,)) if one not in out]
    return union(*left) if left else None


def is_subtype(t, of):
    if t == of:
        return True
    if t.kind == "Union":
        return all(is_subtype(one, of) for one in t.items)
    if of.kind == "Union":
        return any(is_subtype(t, one) for one in of.items)
    return (
        t.kind == of.kind == "Tuple"
        and not of.fields
        and len(t.items) == len(of.items)
        and all(map(is_subtype, t.items, of.items))
    )


def common(a, b):
    """The type of a value that is one or the other; None where there is none."""
    if is_subtype(a, b):
        return b
    if is_subtype(b, a):
        return a
    if NONE in (a, b) or a.optional or b.optional:
        inner_a, inner_b = without(a, (NONE,)), without(b, (NONE,))
        if inner_a is None or inner_b is None:
            return union(a, b)
        inner = common(inner_a, inner_b)
        return None if inner is None else union(inner, NONE)
    if a.kind == b.kind == "Tuple" and len(a.items) == len(b.items) and not (a.fields or b.fields):
        items = [common(x, y) for x, y in zip(a.items, b.items, strict=True)]
        return None if None in items else Tuple(*items)
    return None


_NAMES = {
    "int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "None": NONE, "Tensor": TENSOR,
    "number": NUMBER, "Device": DEVICE,
}  # fmt: skip


def named_tuple(cls, scope):
    hints = getattr(cls, "__annotations__", {})
    items = [of_annotation(hints[f], scope) if f in hints else TENSOR for f in cls._fields]
    from rushlight.jit._values import remember_tuple

    remember_tuple(cls)
    return T("Tuple", items, cls._fields, cls.__name__)


def declared_in_init(cls, name):
    """The type that a class's __init__ annotates an attribute with: `self.name: List[int] = ...`.
    What is empty has no type of its own."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))
    except (OSError, TypeError, SyntaxError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            if node.target.attr == name:
                return of_annotation(ast.unparse(node.annotation), cls.__init__.__globals__)
    return None


def of_annotation(a, scope=None):
    """The type that an annotation names; `scope` looks names up in annotations that are text."""
    if isinstance(a, str):
        try:
            a = eval(a, {}, scope if scope is not None else {})  # the user's own source
        except Exception as error:
            refuse(f"the annotation {a!r} cannot be read ({error})")
    if isinstance(a, T):
        return a
    if a is None or a is type(None):
        return NONE
    if isinstance(a, typing.ForwardRef):
        return of_annotation(a.__forward_arg__, scope)
    simple = {int: INT, float: FLOAT, bool: BOOL, str: STR, _C.dtype: DTYPE, _C.device: DEVICE,
              _C.layout: LAYOUT, _C.memory_format: FORMAT, _C.Size: List(INT)}  # fmt: skip
    if isinstance(a, typing.Hashable) and a in simple:
        return simple[a]
    if isinstance(a, type) and issubclass(a, _C.Tensor):
        return TENSOR
    if isinstance(a, type) and issubclass(a, tuple) and hasattr(a, "_fields"):
        return named_tuple(a, scope)
    if isinstance(a, type) and issubclass(a, enum.Enum):
        return classes.enum_type(a)
    if classes.is_user_class(a) and typing.get_origin(a) is None:
        return classes.class_type(a)
    origin, args = typing.get_origin(a), typing.get_args(a)
    if origin is typing.Final:
        return of_annotation(args[0], scope)
    if origin is typing.Annotated:
        return of_annotation(args[0], scope)
    if a in (list, tuple, dict, typing.List, typing.Tuple, typing.Dict):  # noqa: UP006
        name = getattr(a, "__name__", str(a)).capitalize()
        refuse(f"the annotation {name} needs the types of its items", f"write {name}[...]")
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable):
        return List(of_annotation(args[0], scope))
    if origin is dict:
        return Dict(*(of_annotation(x, scope) for x in args))
    if origin is tuple:
        if args and args[-1] is Ellipsis:
            refuse("a tuple of any length has no type in programs", "write List[...]")
        return Tuple(*(of_annotation(x, scope) for x in args if x != ()))
    if origin in (typing.Union, types.UnionType):
        return union(*(of_annotation(x, scope) for x in args))
    refuse(
        f"the annotation {getattr(a, '__name__', a)!s} is no type of programs",
        "they know Tensor, int, float, bool, str, dtype, device, None, List, Dict, Tuple, "
        "NamedTuple, Enum, classes of your own, and Optional and Union of these",
    )


def of_object(obj):
    """The type of a Python value; None where it has none."""
    if obj is None:
        return NONE
    if classes.is_enum_member(obj):
        return classes.enum_type(type(obj))
    for cls, t in ((bool, BOOL), (int, INT), (float, FLOAT), (str, STR), (_C.Tensor, TENSOR),
                   (_C.dtype, DTYPE), (_C.device, DEVICE), (_C.layout, LAYOUT),
                   (_C.memory_format, FORMAT), (_C.Size, List(INT))):  # fmt: skip
        if isinstance(obj, cls):
            return t
    if isinstance(obj, tuple):
        if hasattr(obj, "_fields"):
            return named_tuple(type(obj), None)
        items = [of_object(x) for x in obj]
        return None if None in items else Tuple(*items)
    if isinstance(obj, list):
        items = {of_object(x) for x in obj} or {TENSOR}
        return List(items.pop()) if len(items) == 1 and None not in items else None
    if isinstance(obj, dict):
        keys = {of_object(x) for x in obj} or {STR}
        items = {of_object(x) for x in obj.values()} or {TENSOR}
        if len(keys) == len(items) == 1 and None not in keys | items:
            return Dict(keys.pop(), items.pop())
    return classes.type_of_scripted(type(obj))


# Signatures of builtins ---------------------------------------------------------------------------


def _split(text):
    """The parts between commas that stand outside of brackets."""
    parts, depth, at = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append(text[at:i].strip())
            at = i + 1
    return [p for p in [*parts, text[at:].strip()] if p]


def parse(text):
    """A type of a signature; single letters are variables."""
    if "[" not in text:
        return _NAMES.get(text) or T(text)
    kind, inner = text[: text.index("[")], text[text.index("[") + 1 : -1]
    items = [parse(p) for p in _split(inner)]
    if kind == "Optional":
        # A variable may turn out to be optional itself.
        return T("Union", (NONE, items[0]))
    return T(kind, items)


class Signature:
    def __init__(self, name, text):
        given, result = text.split("->")
        self.name, self.variadic = name, given.strip() == "..."
        self.args = [] if self.variadic else [parse(p) for p in _split(given)]
        self.result = parse(result.strip())


_table: dict[str, Signature] = {}


def signature(name):
    if not _table:
        for row, text in _C._jit_builtins():
            _table[row] = Signature(row, text)
    return _table[name]


def filled(pattern, bound):
    if len(pattern.kind) == 1:
        return bound[pattern.kind]
    if not pattern.items:
        return pattern
    items = [filled(p, bound) for p in pattern.items]
    return union(*items) if pattern.kind == "Union" else T(pattern.kind, items)


def bind(pattern, given, bound):
    """Whether a type fits a pattern; variables take what they first meet."""
    if len(pattern.kind) == 1:
        return is_subtype(given, bound.setdefault(pattern.kind, given))
    if pattern.kind in ("List", "Dict") and given.kind == pattern.kind:
        return all(
            bound.setdefault(p.kind, g) == g if len(p.kind) == 1 else p == g
            for p, g in zip(pattern.items, given.items, strict=True)
        )
    return is_subtype(given, pattern)
