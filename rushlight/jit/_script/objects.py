"""What is done with objects of classes: making them, attributes, methods, operators."""

from __future__ import annotations

import dataclasses
import enum
import inspect

from rushlight.jit._script import classes
from rushlight.jit._script import types as t
from rushlight.jit._script.calls import Calls
from rushlight.jit._script.errors import Refusal, refuse
from rushlight.jit._script.values import Val, describe, static, type_of

_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv",
    "Mod": "mod", "Pow": "pow", "MatMult": "matmul", "BitAnd": "and", "BitOr": "or",
    "BitXor": "xor", "LShift": "lshift", "RShift": "rshift",
}  # fmt: skip
_COMPARISONS = {"Eq": ("__eq__", "__eq__"), "NotEq": ("__ne__", "__ne__"),
                "Lt": ("__lt__", "__gt__"), "LtE": ("__le__", "__ge__"),
                "Gt": ("__gt__", "__lt__"), "GtE": ("__ge__", "__le__")}  # fmt: skip
_FUNCTIONS = {len: "__len__", int: "__int__", float: "__float__", abs: "__abs__"}


def is_object(v):
    return v.type is not None and v.type.kind == "Object"


class Objects(Calls):
    """Objects of the user's classes."""

    def call_class(self, cls, args, kwargs):
        if issubclass(cls, enum.Enum) and len(args) == 1 and not kwargs:
            return self.enum_item(cls, args[0])
        if classes.is_user_class(cls):
            return self.make_object(cls, args, kwargs)
        return super().call_class(cls, args, kwargs)

    @staticmethod
    def enum_item(cls, v):
        if not v.known:
            refuse(f"{cls.__name__}(...) needs a value that stands in the program")
        try:
            return static(cls(v.obj))
        except ValueError as error:
            refuse(str(error))

    def make_object(self, cls, args, kwargs):
        made = classes.class_type(cls)  # refuses what has none
        if cls.__init__ is object.__init__:
            if args or kwargs:
                refuse(f"{cls.__name__} takes no arguments", "give it an __init__")
            return self.result(made, make=[])
        source = classes.constructor(cls)
        return self.program.call_user(self, source, self.program.arguments(source, args, kwargs))

    def expr_MakeObject(self, node):
        """In an __init__, where all attributes have their values."""
        source, kinds, operands = self.source, [], []
        for field in source.fields:
            name = f"{source.me}.{field}"
            v = self.env.get(name)
            if not isinstance(v, Val):
                refuse(v or f"'{name}' has no value on every way through {source.name}")
            wanted = self.declared.get(name)
            operand, kind = self.value(v) if wanted is None else self.as_type(v, wanted)
            kind = wanted or kind
            kind.open = False
            kinds.append(kind)
            operands.append(operand)
        cls = source.constructs
        made = t.T("Object", kinds, source.fields, cls.__name__, cls)
        return self.result(classes.noted(cls, made), make=operands)

    # Attributes and methods -----------------------------------------------------------------------

    def object_attribute(self, v, name):
        if name in v.type.fields:
            return self.tuple_item(v, v.type.fields.index(name))
        cls = v.type.python
        if not isinstance(cls, type):
            return self.program.archived_method(v, cls, name)
        found = inspect.getattr_static(cls, name, None)
        if isinstance(found, property):
            return self.program.call_function(self, found.fget, [v], {}, cls)
        if isinstance(found, staticmethod):
            return Val(obj=found.__func__)
        if isinstance(found, classmethod):
            refuse(f"{cls.__name__}.{name} is a classmethod", "make it a staticmethod")
        if inspect.isfunction(found):
            return self.bound_method(v, cls, found)
        if found is None or name.startswith("__"):
            refuse(
                f"{cls.__name__} has no attribute '{name}'",
                "attributes are those that __init__ assigns",
            )
        return self.lifted(getattr(cls, name))

    def bound_method(self, v, cls, fn):
        from rushlight.jit._script.expr import Written

        def call(caller, *args, **kwargs):
            return caller.program.call_function(caller, fn, [v, *args], kwargs, cls)

        return Val(obj=Written(call))

    def set_object_attribute(self, v, name, value):
        cls = v.type.python
        found = inspect.getattr_static(cls, name, None)
        if isinstance(found, property):
            if found.fset is None:
                refuse(f"the property '{name}' of {cls.__name__} has no setter")
            self.program.call_function(self, found.fset, [v, value], {}, cls)
            return
        if name not in v.type.fields:
            refuse(
                f"{cls.__name__} has no attribute '{name}'",
                "give it a value in __init__",
            )
        if getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
            refuse(f"{cls.__name__} is frozen: its attributes cannot be set")
        k = v.type.fields.index(name)
        try:
            operand, _ = self.as_type(value, v.type.items[k])
        except Refusal as why:
            refuse(f"the attribute '{name}' of {cls.__name__}: {why}", "use another attribute")
        self.emit(do="set_field", args=[v.operand, {"is": k}, operand], to=None)

    # Operators ------------------------------------------------------------------------------------

    def special(self, v, name, *args):
        """v.name(*args) of a method with underscores; None where the class has none of its own."""
        if not is_object(v):
            return None
        cls = v.type.python
        found = inspect.getattr_static(cls, name, None)
        if not inspect.isfunction(found) or classes._is_generated(found):
            return None
        return self.program.call_function(self, found, [v, *args], {}, cls)

    def binary_of_objects(self, op, a, b):
        """What the classes of a and b say of an operator; None where neither is an object."""
        if not (is_object(a) or is_object(b)):
            return None
        if op in _COMPARISONS:
            mine, turned = _COMPARISONS[op]
        else:
            mine, turned = f"__{_OPERATORS[op]}__", f"__r{_OPERATORS[op]}__"
        for v, name, other in ((a, mine, b), (b, turned, a)):
            found = self.special(v, name, other)
            if found is not None:
                return found
        if op == "NotEq":
            return self.builtin("not", self.truth(self.binary("Eq", a, b)))
        if op == "Eq" and type_of(a) == type_of(b):
            return self.equal_objects(a, b)
        if op == "Eq":
            return static(False)
        refuse(f"{describe(a)} and {describe(b)} have no such operator", f"define {mine}")

    def equal_objects(self, a, b):
        cls = a.type.python
        if not (dataclasses.is_dataclass(cls) and cls.__dataclass_params__.eq):
            return self.builtin("is", a, b)
        found = static(True)
        for field in (f.name for f in dataclasses.fields(cls) if f.compare):

            def same(field=field):
                parts = self.attribute(a, field), self.attribute(b, field)
                return self.truth(self.binary("Eq", *parts))

            found = self.both(found, same)
        return found

    def unary_of_object(self, op, v):
        name = {"USub": "__neg__", "UAdd": "__pos__", "Invert": "__invert__"}[op]
        found = self.special(v, name)
        if found is None:
            refuse(f"{describe(v)} has no such operator", f"define {name}")
        return found

    def function_of_objects(self, obj, args):
        """len(), str() and the like of objects; None where they are not asked for one. And range()
        as a value, which functions of the library have now and then."""
        if obj is range and self.source.library:
            return self.listed_from(self.range_items(args))
        if not any(map(is_object, args)):
            return None
        if obj is print:
            return self.builtin("print", *(self.text_of(v) for v in args))
        if len(args) != 1 or obj not in (*_FUNCTIONS, str, repr, bool):
            return None
        if obj in (str, repr):
            return self.text_of(args[0], obj is repr)
        if obj is bool:
            return self.truth(args[0])
        found = self.special(args[0], _FUNCTIONS[obj])
        if found is None:
            refuse(f"{describe(args[0])} has no {obj.__name__}()", f"define {_FUNCTIONS[obj]}")
        return found

    def text_of(self, v, quoted=False):
        """An object as its class shows it; others as they are."""
        if not is_object(v):
            return v
        found = None if quoted else self.special(v, "__str__")
        if found is None:
            found = self.special(v, "__repr__")
        return self.builtin("repr", v) if found is None else found

    def truth_of_object(self, v):
        found = self.special(v, "__bool__")
        if found is None:
            found = self.special(v, "__len__")
            found = None if found is None else self.builtin("gt_int", found, static(0))
        return static(True) if found is None else found

    def needs(self, v, name, *args):
        """v.name(*args), which the class must have."""
        found = self.special(v, name, *args)
        if found is None:
            refuse(f"{describe(v)} has no {name}", "define it in the class")
        return found
