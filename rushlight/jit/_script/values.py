"""What is known of a value while a function is compiled, and what every part does with one."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight.jit._script import classes
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import refuse

_NOTHING = object()
# Builtins that ask whether values are equal, or which one is less.
_EQUAL = frozenset("eq ne less contains_list index_list count_list remove sort".split())


class Val:
    """A value. Some have a type and an operand, which the program reads when it runs. Some are
    Python
    objects that are known now (`obj`): numbers are both; modules and functions have no type. Tuples
    and lists that were just written down are `items` (`display` says which) until someone needs
    them
    as values."""

    __slots__ = ("display", "fields", "items", "obj", "operand", "origin", "owner", "type")

    def __init__(self, type=None, operand=None, obj=_NOTHING, items=None, display=None, fields=()):
        self.type, self.operand, self.obj = type, operand, obj
        self.items, self.display, self.fields = items, display, fields
        self.origin = None  # the value that this one is a narrowed view of
        self.owner = None  # of a method: the value that it is a method of

    @property
    def known(self):
        return self.obj is not _NOTHING

    def is_none(self):
        return (self.known and self.obj is None) or self.type == t.NONE


class Listing(Val):
    """x.tolist(), whose type is the one that is asked of it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor):
        super().__init__()
        self.tensor = tensor


class Nothing(Val):
    """What a function of the library gives that returns nothing, or always raises as it is called
    here."""

    __slots__ = ("name",)

    def __init__(self, name):
        super().__init__(t.NONE, {"is": None}, None)
        self.name = name


def need_typed(v):
    """Where nobody says which type is wanted."""
    if isinstance(v, Listing):
        refuse("tolist() has no type that is known before it runs",
               "annotate it: `values: List[float] = x.tolist()`")  # fmt: skip


def _number_operand(obj):
    if isinstance(obj, float) and not math.isfinite(obj):
        return {"float": "nan" if obj != obj else "inf" if obj > 0 else "-inf"}
    return obj


def short_name(obj):
    """'float32' of rushlight.float32."""
    return str(obj).rsplit(".", 1)[-1]


def static(obj):
    """The value for a Python object that is known now."""
    if isinstance(obj, bool | int | float | str) or obj is None:
        plain = obj
        if isinstance(obj, int) and not isinstance(obj, bool):
            plain = int(obj)
            if not -(2**63) <= plain < 2**63:
                refuse(f"the int {plain} does not fit into 64 bits")
        elif isinstance(obj, float):
            plain = float(obj)
        return Val(t.of_object(obj), {"is": _number_operand(plain)}, obj)
    if isinstance(obj, _C.dtype):
        return Val(t.DTYPE, {"is": {"dtype": short_name(obj)}}, obj)
    if isinstance(obj, _C.device):
        if obj.type not in ("cpu", "cuda", "meta"):
            refuse(f"there are no tensors on {obj.type!r}, and programs do not know its name")
        return Val(t.DEVICE, {"is": {"device": str(obj)}}, obj)
    if isinstance(obj, _C.layout):
        return Val(t.LAYOUT, {"is": {"layout": "strided"}}, obj)
    if isinstance(obj, _C.memory_format):
        return Val(t.FORMAT, {"is": {"memory_format": str(obj)}}, obj)
    return Val(obj=obj)


NONE = static(None)


def pack(items, display="tuple", fields=()):
    """A tuple or list that was written down; known where all items are."""
    items = list(items)
    v = Val(items=items, display=display, fields=fields)
    if all(i.known for i in items) and not fields:
        objs = [i.obj for i in items]
        v.obj = tuple(objs) if display == "tuple" else objs
    return v


def describe(v):
    """For messages: its type, or what it is."""
    if isinstance(v, Nothing):
        return f"the result of {v.name} (which has none, or always raises here)"
    if v.type is not None:
        return str(v.type)
    if v.items is not None:
        inner = ", ".join(map(describe, v.items))
        return f"Tuple[{inner}]" if v.display == "tuple" else f"a list of ({inner})"
    if isinstance(v, Listing):
        return "the numbers of a tensor"
    if isinstance(v.obj, tuple | list | dict):
        return f"a {type(v.obj).__name__}"
    name = getattr(v.obj, "__name__", None)
    return f"{name}" if name else f"a {type(v.obj).__name__}"


def type_of(v):
    """The type that a value has, or would have as one of the program; None where it has none."""
    if v.type is not None:
        return v.type
    if v.items is not None:
        items = [type_of(i) for i in v.items]
        if None in items:
            return None
        if v.display == "tuple":
            return t.Tuple(*items)
        return t.List(_one_type(items)) if items else t.List(t.TENSOR)
    return t.of_object(v.obj) if v.known else None


def _one_type(items):
    found = items[0]
    for other in items[1:]:
        # Of numbers in one list, ints become floats, as PyTorch has it.
        if {found, other} == {t.INT, t.FLOAT}:
            found = t.FLOAT
            continue
        both = t.common(found, other)
        if both is None:
            refuse(f"the items of a list must have one type, here are {found} and {other}")
        found = both
    return found


class Emitter:
    """Writes the statements of one function. The parts of the compiler are its subclasses."""

    def __init__(self, program, source):
        self.program, self.source = program, source
        self.locals = []  # types, as text or T
        self.out = []  # the list that statements go to
        self.env = {}  # name -> Val; None: the code here is never reached
        self.declared = {}  # name -> T, from annotations
        self.node = None  # what is being compiled, for lines

    # Statements -----------------------------------------------------------------------------------

    def local(self, type):
        self.locals.append(type)
        return len(self.locals) - 1

    def emit(self, **statement):
        line = self.source.first_line + getattr(self.node, "lineno", 1) - 1
        statement["line"] = line
        self.out.append(statement)
        return statement

    def builtin(self, name, *args):
        """Calls a builtin of the program with values; ints become floats where it wants them."""
        s = t.signature(name)
        operands, bound = [], {}
        if name in _EQUAL:
            cls = next(filter(None, (classes.compares(type_of(v)) for v in args)), None)
            if cls is not None:
                refuse(
                    f"{cls.__name__} has an == of its own, which containers do not ask in programs",
                    "compare the objects in a loop",
                )
        if args and args[0].type is not None and args[0].type.open:
            self.close(name, args)
        for k, v in enumerate(args):
            wanted = None if s.variadic else s.args[k]
            if wanted is not None and wanted.kind in ("float", "int", "bool", "str", "Union"):
                operand, given = self.as_type(v, wanted)
            else:
                inner = None
                if wanted is not None and len(wanted.kind) == 1:
                    inner = bound.get(wanted.kind)
                elif (
                    wanted is not None
                    and wanted.items
                    and all(len(i.kind) > 1 or i.kind in bound for i in wanted.items)
                ):
                    inner = t.filled(wanted, bound)
                operand, given = self.as_type(v, inner) if inner is not None else self.value(v)
            if wanted is not None and not t.bind(wanted, given, bound):
                refuse(f"{name.split('_')[0]} cannot be used with {', '.join(map(describe, args))}")
            operands.append(operand)
        result = t.filled(s.result, bound)
        return self.result(result, do=name, args=operands)

    @staticmethod
    def close(name, args):
        """Gives an empty list or dict the type of the first item that it gets."""
        open_type = args[0].type
        item = type_of(args[-1])
        if name == "extend" and item is not None:
            item = _one_type(list(item.items)) if item.items else None
        if item is None or name not in ("append", "extend", "insert", "set_key", "setdefault"):
            return
        open_type.items = (type_of(args[1]), item) if open_type.kind == "Dict" else (item,)
        open_type.open = False

    def result(self, type, **statement):
        if type == t.NONE:
            self.emit(**statement, to=None)
            return NONE
        to = self.local(type)
        self.emit(**statement, to=to)
        return Val(type, to)

    # Values ---------------------------------------------------------------------------------------

    def value(self, v):
        """(operand, type) of a value as one of the program."""
        need_typed(v)
        if v.type is not None:
            return v.operand, v.type
        if v.items is not None:
            return self.made(v, type_of(v))
        wanted = t.of_object(v.obj) if v.known else None
        if wanted is None:
            refuse(f"{describe(v)} is a Python object, and no value of a program")
        return self.as_type(self.opened(v), wanted)

    def opened(self, v):
        """A Python tuple, list or dict that is known now, as one that was written down."""
        need_typed(v)
        if v.items is None and v.known and classes.is_enum_member(v.obj):
            return pack([static(v.obj.name), static(v.obj.value)], "tuple", ("name", "value"))
        if v.items is None and v.known and isinstance(v.obj, tuple | list) and v.type is None:
            display = "list" if isinstance(v.obj, list | _C.Size) else "tuple"
            fields = getattr(v.obj, "_fields", ())
            opened = pack([self.lifted(x) for x in v.obj], display, fields)
            if fields:
                opened.type = None
            return opened
        return v

    def lifted(self, obj):
        """static, and tensors as constants of the program."""
        if isinstance(obj, _C.Tensor):
            return self.program.tensor(obj)
        return static(obj)

    def made(self, v, wanted):
        """A tuple or list that was written down, as a value of the type."""
        if wanted is None:
            refuse(f"{describe(v)} is no value of a program")
        if wanted.kind == "Union":
            fitting = [
                o for o in wanted.items if o.kind == ("Tuple" if v.display == "tuple" else "List")
            ]
            if len(fitting) != 1:
                refuse(f"expected {wanted}, got {describe(v)}")
            return self.made(v, fitting[0])[0], fitting[0]
        if wanted.kind == "Tuple":
            if len(wanted.items) != len(v.items):
                refuse(f"expected {wanted}, got {describe(v)}")
            args = [self.as_type(i, w)[0] for i, w in zip(v.items, wanted.items, strict=True)]
        elif wanted.kind == "List":
            args = [self.as_type(i, wanted.items[0])[0] for i in v.items]
        else:
            refuse(f"expected {wanted}, got {describe(v)}")
        to = self.local(wanted)
        self.emit(make=args, to=to)
        return to, wanted

    def as_type(self, v, wanted):
        """(operand, type) of a value where one of this type is wanted."""
        if isinstance(v, Listing):
            v = self.numbers_of(v.tensor, wanted)
        v = self.opened(v)
        if v.type is None and v.items is not None:
            if v.display == "tuple" and wanted.kind == "List" and not v.fields:
                v = pack(v.items, "list")
            return self.made(v, wanted)
        if v.type is None and v.known and isinstance(v.obj, dict) and wanted.kind == "Dict":
            args = []
            for key, item in v.obj.items():
                args += [self.as_type(self.lifted(key), wanted.items[0])[0],
                         self.as_type(self.lifted(item), wanted.items[1])[0]]  # fmt: skip
            to = self.local(wanted)
            self.emit(make=args, to=to)
            return to, wanted
        if v.type is None:
            refuse(f"expected {wanted}, got {describe(v)}")
        if t.is_subtype(v.type, wanted):
            return v.operand, v.type
        converted = self.converted(v, wanted)
        if converted is None:
            refuse(f"expected {wanted}, got {v.type}")
        return converted.operand, converted.type

    def converted(self, v, wanted):
        """What Python does by itself: an int or a bool where a float is wanted. None: it does
        not."""
        if wanted.kind == "Union":
            for one in wanted.items:
                if one.kind == "float" and v.type in (t.INT,):
                    return self.converted(v, one)
            return None
        if v.known and isinstance(v.obj, int) and wanted in (t.FLOAT, t.INT):
            return static(float(v.obj) if wanted == t.FLOAT else int(v.obj))
        if wanted == t.FLOAT and v.type == t.INT:
            return self.builtin("float_int", v)
        if wanted == t.FLOAT and v.type == t.BOOL:
            return self.builtin("float_bool", v)
        if wanted == t.INT and v.type == t.BOOL:
            return self.builtin("int_bool", v)
        if v.type == t.NUMBER and wanted in t.NUMBERS:
            return self.builtin(f"{wanted}_number", v)
        if (
            v.type.kind == "Tuple"
            and wanted.kind == "List"
            and v.type.items
            and all(i == wanted.items[0] for i in v.type.items)
        ):
            return self.result(wanted, do="list_of", args=[v.operand])
        if v.type.kind == "Tuple" and wanted.kind == "List" and not v.type.items:
            to = self.local(wanted)
            self.emit(make=[], to=to)
            return Val(wanted, to)
        return None

    def numbers_of(self, tensor, wanted):
        """The numbers of a tensor as lists in lists, as deep as the type says."""
        from rushlight.jit._script.checks import need_numbers

        number, depth = wanted, 0
        while number.kind == "List":
            number, depth = number.items[0], depth + 1
        if number not in (t.FLOAT, t.INT, t.BOOL):
            refuse(f"tolist() gives numbers and lists of them, not {wanted}")
        args = [tensor, static(depth), static(str(number))]
        self.program.call_function(self, need_numbers, args, {})
        return self._rows_of(tensor, wanted)

    def _rows_of(self, tensor, wanted):
        if wanted.kind != "List":
            return self.builtin(f"{wanted}_tensor", tensor)
        to = self.result(wanted, make=[])
        inner = wanted.items[0]
        self.turn(
            self.items_of(tensor),
            lambda part: self.builtin("append", to, self._rows_of(part, inner)),
        )
        return to

    def as_val(self, v, wanted=None):
        """The value as one of the program."""
        operand, found = self.value(v) if wanted is None else self.as_type(v, wanted)
        made = Val(
            found, operand, v.obj if v.type is not None and v.operand == operand else _NOTHING
        )
        made.origin = v.origin
        return made

    def move_to(self, local, v, type):
        operand, _ = self.as_type(v, type)
        self.emit(move=operand, to=local)

    def truth(self, v):
        """The value as a bool; known where it is known."""
        need_typed(v)
        if v.items is not None:
            return static(bool(v.items))
        if (v.known and v.type is None) or (v.known and v.type in (t.STR, t.INT, t.FLOAT, t.NONE)):
            return static(bool(v.obj))
        if v.type == t.BOOL:
            return v
        if v.type == t.NUMBER:
            return self.builtin("bool_number", v)
        for type, name in ((t.TENSOR, "bool_tensor"), (t.INT, "bool_int"), (t.FLOAT, "bool_float"),
                           (t.STR, "bool_str")):  # fmt: skip
            if v.type == type:
                return self.builtin(name, v)
        if v.type.kind in ("List", "Dict"):
            return self.builtin("gt_int", self.builtin(f"len_{v.type.kind.lower()}", v), static(0))
        if classes.is_enum(v.type):
            return static(True)
        if v.type.kind == "Tuple":
            return static(bool(v.type.items))
        if v.type.kind == "Object":
            return self.truth_of_object(v)
        if v.type.optional and self.source.library:
            is_none = self.compared("Is", v, NONE)
            inner = t.without(v.type, (t.NONE,))
            return self.chosen(is_none, lambda: static(False),
                               lambda: self.truth(self.narrowed(v, inner)))  # fmt: skip
        if v.type.optional:
            refuse(f"whether {v.type} holds is not clear", "write `x is not None`")
        refuse(f"{describe(v)} is neither true nor false")
