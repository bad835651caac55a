"""Operators and comparisons."""

from __future__ import annotations

import ast
import operator

from rushlight.jit._script import classes
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.methods import Methods
from rushlight.jit._script.values import Val, describe, need_typed, pack, static, type_of

_PYTHON = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "MatMult": operator.matmul,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}
_SYMBOLS = {
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Pow": "**",
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "LShift": "<<",
    "RShift": ">>",
    "MatMult": "@",
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
}
TENSOR_OPS = {
    "Add": "add",
    "Sub": "sub",
    "Mult": "mul",
    "Div": "div",
    "FloorDiv": "floor_divide",
    "Mod": "remainder",
    "Pow": "pow",
    "MatMult": "matmul",
    "BitAnd": "bitwise_and",
    "BitOr": "bitwise_or",
    "BitXor": "bitwise_xor",
    "LShift": "bitwise_left_shift",
    "RShift": "bitwise_right_shift",
    "Eq": "eq",
    "NotEq": "ne",
    "Lt": "lt",
    "LtE": "le",
    "Gt": "gt",
    "GtE": "ge",
}
_INT = {
    "Add": "add",
    "Sub": "sub",
    "Mult": "mul",
    "Div": "truediv",
    "FloorDiv": "floordiv",
    "Mod": "mod",
    "Pow": "pow",
    "BitAnd": "and",
    "BitOr": "or",
    "BitXor": "xor",
    "LShift": "lshift",
    "RShift": "rshift",
    "Eq": "eq",
    "NotEq": "ne",
    "Lt": "lt",
    "LtE": "le",
    "Gt": "gt",
    "GtE": "ge",
}
_FLOAT = {
    k: v for k, v in _INT.items() if k not in ("BitAnd", "BitOr", "BitXor", "LShift", "RShift")
}
_NUMBER = {k: _INT[k] for k in ("Add", "Sub", "Mult", "Div", "Lt", "LtE", "Gt", "GtE")}
_COMPARES = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")


class Operators(Methods):
    """Operators of numbers, tensors, strings and containers."""

    def expr_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            return self.condition(node)[0]
        v = self.expr(node.operand)
        op = type(node.op).__name__
        if v.type is not None and v.type.kind == "Object":
            return self.unary_of_object(op, v)
        if v.type == t.TENSOR:
            names = {"USub": "neg", "Invert": "bitwise_not"}
            return v if op == "UAdd" else self.op(names[op], v)
        if v.known and v.type is not None:
            return static(
                {"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert}[op](v.obj)
            )
        if v.type == t.BOOL:
            v = self.as_val(v, t.INT)
        if op == "UAdd" and v.type in (t.INT, t.FLOAT):
            return v
        if op == "USub" and v.type in (t.INT, t.FLOAT):
            return self.builtin(f"neg_{v.type}", v)
        if op == "USub" and v.type == t.NUMBER:
            return self.builtin("neg_number", v)
        if op == "Invert" and v.type == t.INT:
            return self.builtin("invert_int", v)
        refuse(f"{describe(v)} has no such operator")

    def expr_BinOp(self, node):
        return self.binary(type(node.op).__name__, self.expr(node.left), self.expr(node.right))

    def binary(self, op, a, b):
        symbol = _SYMBOLS[op]
        need_typed(a)
        need_typed(b)
        a, b = self.source.alike(a, b)
        of_objects = self.binary_of_objects(op, a, b)
        if of_objects is not None:
            return of_objects
        ta, tb = type_of(a), type_of(b)
        if (
            a.known
            and b.known
            and t.TENSOR not in (ta, tb)
            and not (a.display == b.display == "dict")
        ):
            try:
                return self.lifted(_PYTHON[op](a.obj, b.obj))
            except TypeError:
                refuse(f"{describe(a)} {symbol} {describe(b)} is not defined")
            except ArithmeticError as error:
                refuse(f"{describe(a)} {symbol} {describe(b)}: {error}")
        if ta is None or tb is None:
            if op in ("Eq", "NotEq"):
                return static(op == "NotEq")
            refuse(f"{describe(a)} {symbol} {describe(b)} is not defined")
        if t.TENSOR in (ta, tb) and all(x == t.TENSOR or Methods._all_numbers(x) for x in (ta, tb)):
            if ta != t.TENSOR and op in ("Lt", "LtE", "Gt", "GtE", "Eq", "NotEq"):
                turned = {"Lt": "Gt", "LtE": "GtE", "Gt": "Lt", "GtE": "LtE"}.get(op, op)
                return self.op(TENSOR_OPS[turned], b, a)
            return self.op(TENSOR_OPS[op], a, b)
        if ta == t.STR and op == "Mod":
            return self.percent(a, b)
        if t.BOOL in (ta, tb) and ta == tb and op in ("BitAnd", "BitOr", "BitXor"):
            return self.builtin(f"{_INT[op]}_bool", a, b)
        if t.NUMBER in (ta, tb) and op in _NUMBER and all(map(Methods._all_numbers, (ta, tb))):
            return self.builtin(f"{_NUMBER[op]}_number", a, b)
        if all(x in t.NUMBERS for x in (ta, tb)):
            if t.FLOAT in (ta, tb):
                if op in _FLOAT:
                    return self.builtin(f"{_FLOAT[op]}_float", a, b)
                refuse(f"{ta} {symbol} {tb} is not defined")
            return self.builtin(f"{_INT[op]}_int", a, b)
        return self.binary_of_containers(op, symbol, a, b, ta, tb)

    def binary_of_containers(self, op, symbol, a, b, ta, tb):
        if op == "Add" and a.items is not None and b.items is not None and a.display == b.display:
            return pack([*a.items, *b.items], a.display)
        if ta == tb == t.STR:
            if op in ("Lt", "Gt", "LtE", "GtE"):
                flipped = op in ("Gt", "LtE")
                less = self.builtin("lt_str", b, a) if flipped else self.builtin("lt_str", a, b)
                return less if op in ("Lt", "Gt") else self.builtin("not", less)
            if op in ("Add", "Eq", "NotEq"):
                return self.builtin(f"{_INT[op]}_str", a, b)
        written = a.items is not None and a.display == "tuple"
        if op == "Mult" and written and b.known and tb == t.INT:
            return pack(a.items * b.obj)
        if op == "Mult" and t.INT in (ta, tb):
            many, n = (b, a) if ta == t.INT else (a, b)
            kind = type_of(many)
            if kind == t.STR:
                return self.builtin("mul_str", many, n)
            if kind.kind == "List":
                return self.builtin("mul_list", many, n)
        both = {ta.kind, tb.kind}
        if op == "Add" and ta.kind == tb.kind == "Tuple":
            return pack(self.unpacked(a, None) + self.unpacked(b, None))
        if op == "Add" and both <= {"List", "Tuple"}:
            # A shape is a list here and a tuple in Python.
            wanted = ta if ta.kind == "List" and (tb.kind == "Tuple" or a.items is None) else tb
            return self.builtin("add_list", self.as_val(a, wanted), self.as_val(b, wanted))
        if op in ("Eq", "NotEq"):
            if both == {"List", "Tuple"}:
                wanted = ta if ta.kind == "List" else tb
                if type_of(a if ta.kind == "Tuple" else b) == t.Tuple():
                    a, b = (pack(v.items, "list") if v.items == [] else v for v in (a, b))
                a, b = self.as_val(a, wanted), self.as_val(b, wanted)
            if t.TENSOR in (ta, tb):
                refuse(f"{ta} {symbol} {tb} is not defined")
            return self.builtin("eq" if op == "Eq" else "ne", a, b)
        if op in ("Lt", "Gt", "LtE", "GtE") and ta == tb and ta.kind in ("List", "Tuple"):
            less = self.builtin("less", b, a) if op in ("Gt", "LtE") else self.builtin("less", a, b)
            return less if op in ("Lt", "Gt") else self.builtin("not", less)
        hint = "check that it is not None first" if ta.optional or tb.optional else None
        refuse(f"{describe(a)} {symbol} {describe(b)} is not defined", hint)

    def expr_Compare(self, node):
        if len(node.ops) > 1:
            return self.chain(node)
        return self.compared(
            type(node.ops[0]).__name__, self.expr(node.left), self.expr(node.comparators[0])
        )

    def chain(self, node):
        """a < b < c: b is computed once, and c only where the first holds."""
        left, rest = self.expr(node.left), list(zip(node.ops, node.comparators, strict=True))
        first = self.compared(type(rest[0][0]).__name__, left, middle := self.expr(rest[0][1]))
        for op, right in rest[1:]:
            previous = middle
            holder = {}

            def further(op=op, right=right, previous=previous, holder=holder):
                holder["v"] = self.expr(right)
                return self.truth(self.compared(type(op).__name__, previous, holder["v"]))

            first = self.both(self.truth(first), further)
            middle = holder.get("v", middle)
        return first

    def compared(self, op, a, b):
        if op in _COMPARES:
            return self.binary(op, a, b)
        if op in ("Is", "IsNot"):
            return self.identity(op, a, b)
        inside = self.contains(b, a)
        if op == "In":
            return inside
        return static(not inside.obj) if inside.known else self.builtin("not", inside)

    def identity(self, op, a, b):
        for x, y in ((a, b), (b, a)):
            if not y.is_none():
                continue
            if x.is_none():
                return static(op == "Is")
            if x.type is not None and x.type.optional:
                none = self.builtin("is_none", x)
                return none if op == "Is" else self.builtin("not", none)
            return static(op != "Is")
        if a.known and b.known:
            return static((a.obj is b.obj) == (op == "Is"))
        if classes.is_enum(type_of(a)) and type_of(a) == type_of(b):
            return self.binary("Eq" if op == "Is" else "NotEq", a, b)
        if (
            {a.type, b.type} <= {t.BOOL}
            or a.type == b.type == t.TENSOR
            or (a.type and b.type and a.type.kind in ("List", "Dict", "Object"))
        ):
            same = self.builtin("is", a, b)
            return same if op == "Is" else self.builtin("not", same)
        refuse(f"`is` of {describe(a)} and {describe(b)}", "compare with ==")

    def contains(self, box, v):
        box = self.opened(box)
        if box.type is not None and box.type.kind == "Object":
            return self.truth(self.needs(box, "__contains__", v))
        if box.known and v.known and v.type != t.TENSOR and not isinstance(box.obj, Val):
            try:
                return static(v.obj in box.obj)
            except TypeError:
                refuse(f"`in` of {describe(box)} is not defined")
        if box.known and isinstance(box.obj, dict | set | frozenset) and box.type is None:
            box = pack([self.lifted(k) for k in box.obj], "list")
        if box.items is not None:
            found = static(False)
            for one in box.items:
                found = self.either(found, lambda one=one: self.truth(self.binary("Eq", v, one)))
            return found
        kind = box.type.kind if box.type else ""
        if kind == "Dict":
            return self.builtin("contains_key", box, v)
        if kind == "List":
            return self.builtin("contains_list", box, v)
        if box.type == t.STR:
            return self.builtin("contains_str", box, v)
        if kind == "Tuple":
            return self.contains(pack(self.unpacked(box, None)), v)
        refuse(f"`in` of {describe(box)} is not defined")
