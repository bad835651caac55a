"""Calls: operators of the table, functions, modules, classes."""

from __future__ import annotations

import inspect
import types as pytypes

from rushlight import _C
from rushlight.jit._script import checks
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import Refusal, refuse
from rushlight.jit._script.values import NONE, Emitter, Val, describe, pack, static, type_of

_ops: dict[str, list] = {}


def overloads(name):
    """The rows of an operator."""
    if name not in _ops:
        _ops[name] = _C._jit_overloads(name)
    return _ops[name]


def op_name(obj):
    """The name of an operator of the table that a Python object is; None where it is none."""
    name = getattr(obj, "__name__", None)
    if not isinstance(obj, pytypes.BuiltinFunctionType | pytypes.MethodDescriptorType) and type(
        obj
    ).__module__ not in ("rushlight._C", "rushlight"):
        return None
    if name and getattr(_C, name, None) is obj and overloads(name):
        return name
    return None


class NoFit(Exception):
    pass


class Limits:
    """finfo or iinfo of a dtype that is known when the program runs."""

    def __init__(self, cls, dtype):
        self.cls, self.dtype = cls, dtype
        names = (
            "float32 float64 float16 bfloat16 complex64 complex128"
            if cls is _C.finfo
            else "int64 int32 int16 int8 uint8"
        )
        self.dtypes = [getattr(_C, name) for name in names.split()]

    def value(self, c, name, at=0):
        """By comparing with one dtype after the other; it must be one of them."""
        if not hasattr(self.cls(self.dtypes[at]), name):
            refuse(f"{self.cls.__name__} has no attribute '{name}'")
        found = static(getattr(self.cls(self.dtypes[at]), name))
        if at == len(self.dtypes) - 1:
            args = [static(self.cls.__name__), self.dtype, static(self.dtypes[at])]
            c.program.call_function(c, checks.need_dtype, args, {})
            return found
        same = c.compared("Eq", self.dtype, static(self.dtypes[at]))
        return c.chosen(same, lambda: found, lambda: self.value(c, name, at + 1))


class Calls(Emitter):
    """Calls of anything with values as arguments."""

    # Operators ------------------------------------------------------------------------------------

    def op(self, name, *args, **kwargs):
        """Calls an operator as a function or a method: the first overload that fits."""
        return self.call_op(name, overloads(name), list(args), kwargs)

    def call_op(self, name, rows, args, kwargs, is_method=False):
        if kwargs.get("out") is not None:
            into = kwargs["out"]
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
            if not into.is_none():
                return self.written_to(into, name, rows, args, kwargs)
        reasons = []
        for loose in (False, True):
            for row in rows:
                if is_method and not row[2]:
                    continue
                mark, out = len(self.locals), list(self.out)
                try:
                    bound = self.bound(row, args, kwargs, is_method, loose)
                except (NoFit, Refusal) as why:
                    del self.locals[mark:]
                    self.out[:] = out
                    if loose:
                        reasons.append(str(why))
                    continue
                return self.called_op(name, row, bound)
        given = ", ".join(
            [*map(describe, args), *(f"{k}={describe(v)}" for k, v in kwargs.items())]
        )
        why = f" ({reasons[0]})" if len(set(reasons)) == 1 and reasons[0] else ""
        refuse(f"{name}: no form of it takes ({given}){why}")

    def written_to(self, into, name, rows, args, kwargs):
        """`op(..., out=x)`: the result is copied into x, which has its shape."""
        result = self.call_op(name, rows, args, kwargs)
        if type_of(into) != t.TENSOR or type_of(result) != t.TENSOR:
            refuse(f"{name}: out= takes one tensor in programs", "assign the result")
        self.program.call_function(self, checks.need_out, [static(name), result, into], {})
        self.op("resize_as_", into, result)
        self.op("copy_", into, result)
        return into

    def called_op(self, name, row, bound):
        overload, *_, results, names = row
        statement = {"op": name, "args": bound}
        if overload:
            statement["overload"] = overload
        result_types = [t.parse(r) for r in results]
        to = [self.local(r) for r in result_types]
        self.emit(**statement, to=to)
        vals = [Val(r, k) for r, k in zip(result_types, to, strict=True)]
        return vals[0] if len(vals) == 1 else pack(vals, "tuple", tuple(names.split()))

    def bound(self, row, args, kwargs, is_method, loose):
        """{name: operand} for one overload."""
        _, _, _, _, varargs, self_index, specs, *_ = row
        specs = list(specs)
        args = list(args)
        if is_method and self_index:
            args.insert(self_index, args.pop(0))
        positional = [s for s in specs if not s[3]]
        given = {}
        if varargs and len(args) > 0:
            # f(2, 3) for f((2, 3)): the first list of ints takes the rest.
            place = next(i for i, s in enumerate(positional) if s[1] == "Ints")
            rest = args[place:]
            if (
                rest
                and all(type_of(v) == t.INT for v in rest)
                and not (len(rest) == 1 and positional[place][4])
            ):
                args = [*args[:place], pack(rest, "list")]
        if len(args) > len(positional):
            raise NoFit(f"it takes {len(positional)} arguments by position")
        for spec, v in zip(positional, args, strict=False):
            given[spec[0]] = v
        for name, v in kwargs.items():
            known = {"axis": "dim", "keepdims": "keepdim", "input": "self", "x": "self"}
            names = [s[0] for s in specs]
            real = name if name in names else known.get(name, name)
            if real not in names or real in given:
                raise NoFit(f"it has no argument '{name}'")
            given[real] = v
        bound = {}
        for spec in specs:
            name, has_default = spec[0], spec[5]
            if name in given:
                v = given[name]
                if v.is_none() and not spec[2] and has_default:
                    continue
                bound[name] = self.argument(spec, v, loose)
            elif not has_default:
                raise NoFit(f"the argument '{name}' is missing")
        return bound

    def argument(self, spec, v, loose):
        """The operand for one parameter; raises NoFit where the value is none for it."""
        name, kind, optional, *_ = spec
        if v.is_none():
            if optional:
                return {"is": None}
            raise NoFit(f"'{name}' cannot be None")
        given = type_of(v)

        def no():
            raise NoFit(f"'{name}' cannot be {describe(v)}")

        if kind in ("Ints", "Floats", "Tensors"):
            return self.list_argument(spec, v, given, loose, no)
        if given is None:
            no()
        inner = t.without(given, (t.NONE,)) if optional else given
        if inner is None:
            no()
        plain = v.operand
        if kind in ("Tensor", "Operand"):
            if inner == t.TENSOR or ((kind == "Operand" or loose) and self._all_numbers(inner)):
                return plain
        elif kind == "Scalar":
            if self._all_numbers(inner):
                return plain
            if loose and inner == t.TENSOR and given == inner:
                return self.builtin("number_tensor", v).operand
        elif kind == "Int":
            if inner == t.INT:
                return plain
            if loose and given in (t.BOOL, t.NUMBER, t.TENSOR):
                return self.builtin(
                    f"int_{ {t.BOOL: 'bool', t.NUMBER: 'number', t.TENSOR: 'tensor'}[given] }", v
                ).operand
        elif kind == "Float":
            if inner in (t.FLOAT, t.INT):
                return plain
            if loose and given in (t.BOOL, t.NUMBER, t.TENSOR):
                return self.builtin(
                    f"float_{ {t.BOOL: 'bool', t.NUMBER: 'number', t.TENSOR: 'tensor'}[given] }", v
                ).operand
        elif kind == "Device":
            if inner == t.DEVICE:
                return plain
            if given == t.STR and v.known:
                return static(_C.device(v.obj)).operand
            if given == t.STR:
                return self.builtin("make_device", v).operand
            if given == t.INT and v.known:
                return static(_C.device(v.obj)).operand
        else:
            wanted = {"Bool": t.BOOL, "String": t.STR, "DType": t.DTYPE, "Layout": t.LAYOUT,
                      "MemoryFormat": t.FORMAT}.get(kind)  # fmt: skip
            if wanted is not None and inner == wanted:
                return plain
            if kind == "Bool" and loose and given == t.INT:
                return self.builtin("bool_int", v).operand
        no()

    @staticmethod
    def _all_numbers(type):
        return all(one in t.NUMBERS for one in (type.items if type.kind == "Union" else (type,)))

    def list_argument(self, spec, v, given, loose, no):
        _, kind, optional, _, broadcast, _, holes = spec
        item = {"Ints": t.INT, "Floats": t.FLOAT, "Tensors": t.TENSOR}[kind]
        allowed = {"Ints": (t.INT,), "Floats": (t.FLOAT, t.INT), "Tensors": (t.TENSOR,)}[kind]
        v = self.opened(v)
        if v.items is not None:
            operands = []
            for one in v.items:
                if one.is_none() and holes:
                    operands.append({"is": None})
                    continue
                if one.type in allowed:
                    operands.append(one.operand)
                elif kind != "Tensors" and loose and one.type in (t.NUMBER, t.BOOL, t.TENSOR):
                    source = {t.NUMBER: "number", t.BOOL: "bool", t.TENSOR: "tensor"}[one.type]
                    operands.append(self.builtin(f"{item}_{source}", one).operand)
                else:
                    no()
            return {"list": operands}
        if v.known and v.type is None and kind == "Tensors" and isinstance(v.obj, _C.Tensor):
            no()
        inner = (t.without(given, (t.NONE,)) if optional and given is not None else given) or no()
        if inner == t.INT and kind == "Ints" and broadcast:
            return v.operand
        if (
            inner.kind in ("List", "Tuple")
            and inner.items
            and all(i in allowed or (holes and i == t.union(t.NONE, t.TENSOR)) for i in inner.items)
        ):
            return v.operand
        if kind == "Ints" and loose and given == t.TENSOR and broadcast:
            return self.builtin("int_tensor", v).operand
        no()

    # Functions ------------------------------------------------------------------------------------

    def call(self, f, args, kwargs):
        """Calls what `f` is."""
        from rushlight.jit._script import builtin, expr
        from rushlight.nn import Module

        if f.owner is not None:
            return self.call_method(f.owner, f.obj, args, kwargs)
        if f.type is not None and f.type.kind == "Object":
            method = self.object_attribute(f, "__call__")
            return method.obj.call(self, *args, **kwargs)
        if not f.known:
            refuse(f"a value of type {f.type} cannot be called")
        obj = f.obj
        of_objects = self.function_of_objects(obj, args)
        if of_objects is not None:
            return of_objects
        special = builtin.find(obj)
        if special is not None:
            return special(self, *args, **kwargs)
        name = op_name(obj) or (op_name(inspect.unwrap(obj)) if callable(obj) else None)
        if name:
            return self.call_op(name, overloads(name), args, kwargs)
        if args and isinstance(obj, pytypes.MethodDescriptorType | pytypes.FunctionType):
            if getattr(_C.Tensor, obj.__name__, None) is obj and type_of(args[0]) == t.TENSOR:
                return self.call_method(args[0], obj.__name__, args[1:], kwargs)  # Tensor.view(x)
        if isinstance(obj, Module):
            return self.program.call_module(self, obj, "forward", args, kwargs)
        if isinstance(obj, expr.Written):
            return obj.call(self, *args, **kwargs)
        bound = getattr(obj, "__self__", None)
        if isinstance(bound, Module) and inspect.ismethod(obj):
            return self.program.call_module(self, bound, obj.__name__, args, kwargs)
        if isinstance(obj, type):
            return self.call_class(obj, args, kwargs)
        if isinstance(obj, pytypes.MethodType):
            return self.program.call_function(self, obj.__func__, [static(bound), *args], kwargs)
        if isinstance(obj, pytypes.FunctionType) or hasattr(obj, "_rushlight_source"):
            return self.program.call_function(self, obj, args, kwargs)
        if hasattr(obj, "__wrapped__"):
            return self.program.call_function(self, inspect.unwrap(obj), args, kwargs)
        refuse(
            f"{describe(f)} cannot be called in a program",
            "leave it to Python with @jit.ignore, or write it with operators",
        )

    def call_class(self, cls, args, kwargs):
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self.make_named(cls, args, kwargs)
        if issubclass(cls, BaseException):
            return Val(obj=(cls, args))
        if issubclass(cls, tuple) and hasattr(cls, "_names") and len(args) == 1:  # return_types
            return pack(self.unpacked(args[0], len(cls._names)), "tuple", cls._names)
        if cls is _C.Size:
            return self.as_val(args[0], t.List(t.INT))
        if cls is _C.device:
            return self.make_device(*args, **kwargs)
        if cls in (_C.finfo, _C.iinfo) and len(args) == 1 and not args[0].known:
            return Val(obj=Limits(cls, args[0]))
        if args and all(a.known for a in args) and cls.__module__.startswith("rushlight"):
            return static(cls(*(a.obj for a in args)))
        refuse(
            f"objects of the class {cls.__name__} cannot be made in a program",
            "programs know NamedTuples, classes of your own, and the modules they were made with",
        )

    def make_named(self, cls, args, kwargs):
        type = t.named_tuple(cls, self.source.scope)
        given = dict(zip(cls._fields, args, strict=False))
        for name, v in kwargs.items():
            if name not in cls._fields or name in given:
                refuse(f"{cls.__name__} has no such field as '{name}' to give")
            given[name] = v
        if len(args) > len(cls._fields):
            refuse(f"{cls.__name__} has {len(cls._fields)} fields, here are {len(args)}")
        for name, value in getattr(cls, "_field_defaults", {}).items():
            given.setdefault(name, static(value))
        missing = [f for f in cls._fields if f not in given]
        if missing:
            refuse(f"{cls.__name__} needs the field '{missing[0]}'")
        operands = [
            self.as_type(given[f], w)[0] for f, w in zip(cls._fields, type.items, strict=True)
        ]
        to = self.local(type)
        self.emit(make=operands, to=to)
        return Val(type, to)

    def make_device(self, device, index=NONE):
        if device.type == t.DEVICE:
            return device
        if device.known and index.known:
            return static(
                _C.device(device.obj, index.obj) if index.obj is not None else _C.device(device.obj)
            )
        if not index.is_none():
            device = self.builtin("concat", device, static(":"), index)
        return self.builtin("make_device", device)
