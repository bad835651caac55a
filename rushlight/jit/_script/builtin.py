"""Python's builtins, math, and the names of rushlight that are no operators, as programs have them.

Each handler takes the compiler and the values of a call and gives the value of the result."""

from __future__ import annotations

import builtins
import math
import typing
import warnings

from rushlight import _C
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.values import NONE, Val, describe, pack, static, type_of

_ZERO, _FLOAT_ZERO, _FALSE, _EMPTY = static(0), static(0.0), static(False), static("")
_TABLE: dict[int, tuple] = {}  # id of the object -> (object, handler)


def handles(*objs):
    def note(handler):
        for obj in objs:
            _TABLE[id(obj)] = (obj, handler)
        return handler

    return note


def find(obj):
    """The handler of a Python object, or None."""
    if not _LATE:
        _fill_late()
    found = _TABLE.get(id(obj))
    return found[1] if found and found[0] is obj else None


def _is_float(v):
    return v.type == t.FLOAT


@handles(len)
def length(c, v):
    if v.items is not None:
        return static(len(v.items))
    if v.known and v.type is None and hasattr(v.obj, "__len__"):
        return static(len(v.obj))
    if v.known and v.type == t.STR:
        return static(len(v.obj))
    if v.type == t.TENSOR:
        return c.builtin("size", v, static(0))
    if v.type == t.STR:
        return c.builtin("len_str", v)
    if v.type is not None and v.type.kind == "Tuple":
        return static(len(v.type.items))
    if v.type is not None and v.type.kind in ("List", "Dict"):
        return c.builtin(f"len_{v.type.kind.lower()}", v)
    refuse(f"{describe(v)} has no length")


def _number(c, v, to):
    """int, float or bool of a value."""
    if v.known and v.type is not None:
        return static({"int": int, "float": float}[to](v.obj))
    source = {t.TENSOR: "tensor", t.INT: "int", t.FLOAT: "float", t.BOOL: "bool",
              t.STR: "str"}.get(v.type)  # fmt: skip
    if source is None and v.type is not None and t.is_subtype(v.type, t.NUMBER):
        source = "number"
    if source is None:
        refuse(f"{to}() takes a number, a string or a tensor of one element, not {describe(v)}")
    return v if source == to else c.builtin(f"{to}_{source}", v)


@handles(int)
def int_(c, v=_ZERO, base=None):
    if base is not None:
        refuse("int() with a base is not there in programs")
    return _number(c, v, "int")


@handles(float)
def float_(c, v=_FLOAT_ZERO):
    return _number(c, v, "float")


@handles(bool)
def bool_(c, v=_FALSE):
    return c.truth(v)


@handles(str)
def str_(c, v=_EMPTY):
    return (
        static(str(v.obj))
        if v.known and v.type in (t.INT, t.STR, t.FLOAT, t.BOOL)
        else c.builtin("str", v)
    )


@handles(repr)
def repr_(c, v):
    return c.builtin("repr", v)


@handles(abs)
def abs_(c, v):
    if v.type == t.TENSOR:
        return c.op("abs", v)
    if v.known:
        return static(abs(v.obj))
    if v.type == t.BOOL:
        v = c.as_val(v, t.INT)
    return c.builtin(f"abs_{v.type}", v)


def _listed(c, v):
    """What one goes over, as a list of the program."""
    v = c.opened(v)
    if v.items is not None:
        return c.as_val(pack(v.items, "list"))
    if v.type is not None and v.type.kind == "List":
        return v
    return c.listed(v)


def _extreme(name):
    def handler(c, *args, **kwargs):
        if kwargs:
            refuse(f"{name}() takes no '{next(iter(kwargs))}' in programs")
        if len(args) == 1 and args[0].type == t.TENSOR:
            return c.op(name, args[0])
        if len(args) == 1:
            one = c.opened(args[0])
            if one.items is None:
                return c.builtin(f"{name}_list", _listed(c, one))
            args = one.items
        if all(a.known for a in args):
            return static(getattr(builtins, name)(a.obj for a in args))
        found = args[0]
        for other in args[1:]:
            if t.TENSOR in (found.type, other.type):
                refuse(f"{name}() of tensors and numbers is not clear", f"write torch.{name}imum")
            if t.FLOAT in (found.type, other.type):
                found = c.builtin(f"{name}_float", found, other)
            elif {found.type, other.type} <= {t.INT, t.BOOL}:
                found = c.builtin(f"{name}_int", found, other)
            else:
                both = c.as_val(pack([found, other], "list"))
                found = c.builtin(f"{name}_list", both)
        return found

    return handler


handles(min)(_extreme("min"))
handles(max)(_extreme("max"))


@handles(sum)
def sum_(c, v, start=_ZERO):
    if v.type == t.TENSOR:
        return c.op("sum", v, c.pack_list([static(0)]))
    items = c.opened(v).items
    if items is not None and any(i.type == t.TENSOR for i in items):
        total = start
        for i in items:
            total = c.binary("Add", total, i)
        return total
    listed = _listed(c, v)
    item = listed.type.items[0]
    if item == t.BOOL:
        refuse("sum() of bools", "write sum([int(x) for x in ...])")
    if item == t.TENSOR:
        total = c.accumulated(listed, start)
        return total
    if item not in (t.INT, t.FLOAT):
        refuse(f"sum() of {listed.type}")
    if start.type == t.FLOAT and item == t.INT:
        return c.builtin("add_float", c.builtin("sum_int", listed, static(0)), start)
    return c.builtin(f"sum_{item}", listed, start)


def _all_any(name):
    def handler(c, v):
        if v.type == t.TENSOR:
            return c.truth(c.op(name, v))
        listed = _listed(c, v)
        if listed.type.items[0] != t.BOOL:
            listed = c.mapped(listed, c.truth)
        return c.builtin(name, listed)

    return handler


handles(all)(_all_any("all"))
handles(any)(_all_any("any"))


@handles(round)
def round_(c, v, ndigits=NONE):
    if v.type == t.TENSOR:
        return c.op("round", v) if ndigits.is_none() else c.op("round", v, decimals=ndigits)
    if v.known and ndigits.known:
        return static(round(v.obj, ndigits.obj) if ndigits.obj is not None else round(v.obj))
    if v.type in (t.INT, t.BOOL):
        return c.as_val(v, t.INT)
    return c.builtin("round_int", v) if ndigits.is_none() else c.builtin("round_digits", v, ndigits)


@handles(divmod)
def divmod_(c, a, b):
    return pack([c.binary("FloorDiv", a, b), c.binary("Mod", a, b)])


@handles(pow)
def pow_(c, a, b):
    return c.binary("Pow", a, b)


@handles(ord)
def ord_(c, v):
    return c.builtin("ord", v)


@handles(chr)
def chr_(c, v):
    return c.builtin("chr", v)


def _in_base(function):
    def handler(c, v):
        from rushlight.jit._script import text

        made = getattr(text, f"_{function.__name__}")
        return static(function(v.obj)) if v.known else c.program.call_function(c, made, [v], {})

    return handler


for _function in (hex, oct, bin):
    handles(_function)(_in_base(_function))


@handles(sorted)
def sorted_(c, v, reverse=_FALSE, key=NONE):
    if not key.is_none():
        refuse("sorted() takes no key in programs")
    if v.type is not None and v.type.kind == "Dict":
        v = c.builtin("keys", v)
    return c.builtin("sorted", _listed(c, v), reverse)


@handles(reversed)
def reversed_(c, v):
    opened = c.opened(v)
    if opened.items is not None:
        return pack(opened.items[::-1], opened.display)
    if v.known and v.type is None:
        return static(list(reversed(list(v.obj))))
    return c.builtin("reversed", _listed(c, v))


@handles(list)
def list_(c, v=None):
    if v is None:
        return pack([], "list")
    opened = c.opened(v)
    if opened.items is not None:
        return pack(opened.items, "list")
    if v.known and v.type is None:
        return static(list(v.obj))
    if v.type.kind == "List":
        return c.builtin("copy", v)
    if v.type.kind == "Tuple":
        return c.as_val(pack(c.unpacked(v, None), "list"))
    return c.listed(v)


@handles(tuple)
def tuple_(c, v=None):
    if v is None:
        return pack([])
    opened = c.opened(v)
    if opened.items is not None:
        return pack(opened.items)
    if v.known and v.type is None:
        return static(tuple(v.obj))
    if v.type is not None and v.type.kind == "Tuple":
        return v
    if (
        v.type is not None
        and v.type.kind == "List"
        and (c.source.library or v.type.items[0] == t.INT)
    ):
        return v  # of shapes and of what functions of ours return, which Python has as tuples
    refuse(f"a tuple has a fixed length, and {describe(v)} may have any", "keep it a list")


@handles(dict)
def dict_(c, v=None, **items):
    if v is None and not items:
        return Val(obj={}, display="dict")
    if v is None:
        return c.made_dict([(static(k), i) for k, i in items.items()])
    if v.type is not None and v.type.kind == "Dict" and not items:
        return c.builtin("copy_dict", v)
    if v.known and isinstance(v.obj, dict):
        return static(dict(v.obj))
    opened = c.opened(v)
    if opened.items and not items:
        return c.made_dict([tuple(c.unpacked(pair, 2)) for pair in opened.items])
    kind = type_of(v)
    pairs = kind is not None and kind.kind == "List" and kind.items[0].kind == "Tuple"
    if pairs and len(kind.items[0].items) == 2 and not items:
        return c.dict_of_pairs(c.as_val(v))
    refuse(f"dict() of {describe(v)} is not there in programs")


@handles(range, zip, enumerate)
def iterable(c, *args, **kwargs):
    refuse("range(), zip() and enumerate() are there for loops only", "wrap it in list(...)")


@handles(print)
def print_(c, *args, **kwargs):
    if set(kwargs) - {"file", "flush"}:
        refuse(f"print() takes no '{next(iter(kwargs))}' in programs")
    return c.builtin("print", *args)


@handles(isinstance)
def isinstance_(c, v, cls):
    return c.is_instance(v, cls)[0]


@handles(hasattr)
def hasattr_(c, v, name):
    if not name.known:
        refuse("hasattr() needs a name that stands in the program")
    if v.type == t.TENSOR:
        return static(hasattr(_C.Tensor, name.obj))
    if v.type is not None:
        return static(name.obj in v.type.fields)
    return static(hasattr(v.obj, name.obj))


@handles(getattr)
def getattr_(c, v, name, default=None):
    if not name.known:
        refuse("getattr() needs a name that stands in the program")
    if default is not None and v.type is None and not hasattr(v.obj, name.obj):
        return default
    return c.attribute(v, name.obj)


@handles(type)
def type_(c, v):
    if v.type == t.TENSOR:
        return static(_C.Tensor)
    if v.type is None and v.known:
        return static(type(v.obj))
    refuse("type() of a value is not there in programs", "write isinstance(x, ...)")


@handles(callable)
def callable_(c, v):
    return static(v.known and callable(v.obj))


@handles(typing.cast)
def cast(c, the_type, v):
    return v


@handles(warnings.warn)
def warn(c, *args, **kwargs):
    return NONE  # who runs a program has read the warnings of the module


@handles(math.prod)
def prod(c, v):
    items = c.opened(v).items
    if items is not None:
        total = static(1)
        for one in items:
            total = c.binary("Mult", total, one)
        return total
    listed = _listed(c, v)
    number = listed.type.items[0]
    to = c.result(number, move=c.as_val(static(1), number).operand)
    c.turn(c.items_of(listed), lambda x: c.move_to(to.operand, c.binary("Mult", to, x), to.type))
    return to


def _math(name):
    def handler(c, *args):
        if all(a.known for a in args):
            return static(getattr(math, name)(*(a.obj for a in args)))
        if any(a.type == t.TENSOR for a in args):
            args = [_number(c, a, "float") if a.type == t.TENSOR else a for a in args]
        if name == "pow":
            return c.builtin("pow_float", *args)
        if name == "log" and len(args) == 2:
            top, bottom = (c.builtin("math_log", a) for a in args)
            return c.builtin("truediv_float", top, bottom)
        if name in ("floor", "ceil", "trunc") and args[0].type in (t.INT, t.BOOL):
            return c.as_val(args[0], t.INT)
        return c.builtin(f"math_{name}", *args)

    return handler


for _name in """sqrt exp expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
    lgamma gamma fabs log log2 log10 log1p degrees radians atan2 hypot copysign fmod floor ceil
    trunc isnan isinf isfinite gcd factorial pow""".split():
    handles(getattr(math, _name))(_math(_name))


# Names of rushlight -------------------------------------------------------------------------------

_LATE: list = []


def _fill_late():
    """What would be imported in a circle when this module is."""
    _LATE.append(True)
    import rushlight as torch
    from rushlight import jit
    from rushlight.linalg import _results

    def annotate(c, the_type, v):
        return c.as_val(v, c.type_from(the_type))

    def tensor(c, data, dtype=NONE, device=NONE, requires_grad=_FALSE, pin_memory=None):
        if data.type == t.TENSOR:
            return c.op("clone", c.op("detach", data))
        if device.type == t.STR:
            device = c.make_device(device)
        return c.builtin("tensor", data, dtype, device, requires_grad)

    def as_tensor(c, data, dtype=NONE, device=NONE):
        if data.type != t.TENSOR:
            return tensor(c, data, dtype, device)
        return c.call_method(data, "to", [], {"dtype": dtype, "device": device})

    def to_value(value):
        return lambda c, *args, **kwargs: static(value)

    def to_builtin(name):
        return lambda c, *args: c.builtin(name, *args)

    def split(c, tensor, split_size_or_sections, dim=_ZERO):
        return c.call_method(tensor, "split", [split_size_or_sections, dim], {})

    def broadcast_shapes(c, *shapes):
        from rushlight.jit._script.library import broadcast_sizes

        lists = (pack([s], "list") if type_of(s) == t.INT else s for s in shapes)
        shape, *others = [c.as_val(s, t.List(t.INT)) for s in lists]
        for other in others:
            shape = c.program.call_function(c, broadcast_sizes, [shape, other], {})
        return shape

    def broadcast_tensors(c, *tensors):
        shape = broadcast_shapes(c, *(c.builtin("shape", v) for v in tensors))
        return pack([c.op("expand", v, shape) for v in tensors])

    def unwrap_optional(c, v):
        return c.narrowed(v, t.without(type_of(v), (t.NONE,)))

    def need_matrices(c, op, **tensors):
        for name, v in tensors.items():
            few = c.compared("Lt", c.builtin("dim", v), static(2))
            c.assert_(c.builtin("not", few), static(f"{op.obj}: {name} needs 2 or more dimensions"))
        return NONE

    table = [
        ((_results.need_matrices,), need_matrices),
        ((jit.annotate,), annotate),
        ((torch.tensor,), tensor),
        ((torch.as_tensor, torch.asarray), as_tensor),
        ((jit.is_scripting,), to_value(True)),
        ((jit.is_tracing, torch._C._jit_is_tracing), to_value(False)),
        ((jit.isinstance,), isinstance_),
        ((jit._unwrap_optional,), unwrap_optional),
        ((torch.get_default_dtype,), to_builtin("default_dtype")),
        ((torch.is_grad_enabled,), to_builtin("is_grad_enabled")),
        ((torch.is_tensor,), lambda c, v: static(v.type == t.TENSOR)),
        ((torch.is_floating_point,), to_builtin("is_floating_point")),
        ((torch.is_complex,), to_builtin("is_complex")),
        ((torch.numel,), to_builtin("numel")),
        ((torch.broadcast_tensors,), broadcast_tensors),
        ((torch.broadcast_shapes,), broadcast_shapes),
        ((torch.split,), split),
        ((torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary,
          torch.overrides.has_torch_function_variadic), to_value(False)),
        ((torch._assert,), lambda c, condition, message: c.assert_(condition, message)),
    ]  # fmt: skip
    for objs, handler in table:
        handles(*objs)(handler)
