"""Expressions."""

from __future__ import annotations

import ast
import builtins as pybuiltins
import operator

from rushlight import _C
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.methods import Methods
from rushlight.jit._script.values import NONE, Val, describe, pack, static, type_of

_PYTHON = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Pow": operator.pow,
    "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor,
    "LShift": operator.lshift, "RShift": operator.rshift, "MatMult": operator.matmul,
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le,
    "Gt": operator.gt, "GtE": operator.ge,
}  # fmt: skip
_SYMBOLS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
    "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>", "MatMult": "@",
    "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=",
}  # fmt: skip
_TENSOR = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floor_divide",
    "Mod": "remainder", "Pow": "pow", "MatMult": "matmul", "BitAnd": "bitwise_and",
    "BitOr": "bitwise_or", "BitXor": "bitwise_xor", "LShift": "bitwise_left_shift",
    "RShift": "bitwise_right_shift", "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le",
    "Gt": "gt", "GtE": "ge",
}  # fmt: skip
_INT = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv",
    "Mod": "mod", "Pow": "pow", "BitAnd": "and", "BitOr": "or", "BitXor": "xor",
    "LShift": "lshift", "RShift": "rshift", "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le",
    "Gt": "gt", "GtE": "ge",
}  # fmt: skip
_FLOAT = {k: v for k, v in _INT.items() if k not in ("BitAnd", "BitOr", "BitXor", "LShift", "RShift")}
_NUMBER = {k: _INT[k] for k in ("Add", "Sub", "Mult", "Div", "Lt", "LtE", "Gt", "GtE")}
_COMPARES = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")


class Written:
    """What is called while a function is compiled, with values."""

    def __init__(self, call):
        self.call = call


class Expressions(Methods):
    """One method per node of Python's syntax."""

    def expr(self, node):
        before, self.node = self.node, node
        handler = getattr(self, f"expr_{type(node).__name__}", None)
        if handler is None:
            names = {"Lambda": "lambda", "Yield": "yield", "Await": "await", "Set": "a set",
                     "SetComp": "a set", "GeneratorExp": "a generator", "NamedExpr": ":="}  # fmt: skip
            name = names.get(type(node).__name__, type(node).__name__)
            refuse(f"{name} is not there in programs", "write it in statements")
        found = handler(node)
        self.node = before
        return found

    def expr_Constant(self, node):
        if node.value is Ellipsis:
            return Val(obj=Ellipsis)
        if isinstance(node.value, bytes | complex):
            refuse(f"{type(node.value).__name__} is no type of programs")
        return static(node.value)

    def expr_Name(self, node):
        name = node.id
        if name in self.env:
            found = self.env[name]
            if isinstance(found, str):
                refuse(found)
            return found
        if name in self.source.local_names:
            refuse(f"the variable '{name}' is not defined here on every way that leads to this line",
                   "give it a value before")  # fmt: skip
        return self.name(name)

    def name(self, name):
        """A name from outside of the function."""
        scope = self.source.scope
        if name in scope:
            return self.global_value(name, scope[name])
        if hasattr(pybuiltins, name):
            return Val(obj=getattr(pybuiltins, name)) if name not in ("True", "False") else static(name == "True")
        refuse(f"the name '{name}' is not defined")

    def global_value(self, name, obj):
        if isinstance(obj, _C.Tensor):
            if self.source.library:
                return self.lifted(obj)
            refuse(f"'{name}' is a tensor from outside of the function", "make it an argument, or a buffer of the module")
        return static(obj)

    def expr_Attribute(self, node):
        return self.attribute(self.expr(node.value), node.attr)

    def expr_Tuple(self, node):
        return self.display(node.elts, "tuple")

    def expr_List(self, node):
        return self.display(node.elts, "list")

    def display(self, nodes, kind):
        """A tuple or a list that is written down; with * of a list, it is a list of the program."""
        found, before = [], None
        for node in nodes:
            if not isinstance(node, ast.Starred):
                found.append(self.expr(node))
                continue
            v = self.opened(self.expr(node.value))
            if v.items is None and v.type is not None and v.type.kind == "List":
                part = self.builtin("copy", v)
                if found:
                    part = self.builtin("add_list", self.as_val(pack(found, "list"), v.type), part)
                before = part if before is None else self.builtin("add_list", before, part)
                found = []
            else:
                found += self.unpacked(v, None)
        if before is None:
            return pack(found, kind)
        return self.builtin("add_list", before, self.as_val(pack(found, "list"), before.type)) if found else before

    def expr_Dict(self, node):
        if not node.keys:
            return Val(obj={}, display="dict")
        if None in node.keys:
            refuse("** in a dict is not there in programs", "use update()")
        return self.made_dict([(self.expr(k), self.expr(v)) for k, v in zip(node.keys, node.values, strict=True)])

    def made_dict(self, pairs):
        def one(vals, what):
            found = type_of(vals[0])
            for v in vals[1:]:
                found = found and type_of(v) and t.common(found, type_of(v))
            if found is None:
                refuse(f"the {what} of a dict must have one type, here are {', '.join(map(describe, vals))}")
            return found

        type = t.Dict(one([k for k, _ in pairs], "keys"), one([v for _, v in pairs], "items"))
        args = []
        for k, v in pairs:
            args += [self.as_type(k, type.items[0])[0], self.as_type(v, type.items[1])[0]]
        return self.result(type, make=args)

    def expr_NamedExpr(self, node):
        v = self.expr(node.value)
        self.assign(node.target, v)
        return self.env[node.target.id]

    def expr_Lambda(self, node):
        """A function that is written in where it is called, with the names of this place."""
        if not self.source.library:
            refuse("lambda is not there in programs", "write a function with a def")
        env = dict(self.env)

        def call(caller, *args):
            if caller.locals is not self.locals:
                refuse("lambda is not there in programs", "write a function with a def")
            kept = self.env, self.out
            self.env, self.out = {**env, **dict(zip((a.arg for a in node.args.args), args, strict=True))}, caller.out
            try:
                return self.expr(node.body)
            finally:
                self.env, self.out = kept

        return Val(obj=Written(call))

    def expr_JoinedStr(self, node):
        pieces = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                pieces.append(static(part.value))
                continue
            conversion = {-1: None, 114: "r", 115: "s", 97: "r"}[part.conversion]
            spec = "" if part.format_spec is None else self.expr_JoinedStr(part.format_spec)
            if isinstance(spec, Val) and not spec.known:
                spec = self.as_val(spec, t.STR)
            v = self.expr(part.value)
            if v.known and v.type is None and v.items is None:
                v = static(str(v.obj))
            pieces.append(self.formatted(v, spec, conversion))
        return self.concatenated(pieces)

    # Operators ------------------------------------------------------------------------------------

    def expr_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            return self.condition(node)[0]
        v = self.expr(node.operand)
        op = type(node.op).__name__
        if v.type == t.TENSOR:
            names = {"USub": "neg", "Invert": "bitwise_not"}
            return v if op == "UAdd" else self.op(names[op], v)
        if v.known and v.type is not None:
            return static({"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert}[op](v.obj))
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
        ta, tb = type_of(a), type_of(b)
        if a.known and b.known and t.TENSOR not in (ta, tb) and not (a.display == b.display == "dict"):
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
                return self.op(_TENSOR[turned], b, a)
            return self.op(_TENSOR[op], a, b)
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
        return self.compared(type(node.ops[0]).__name__, self.expr(node.left), self.expr(node.comparators[0]))

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
        if {a.type, b.type} <= {t.BOOL} or a.type == b.type == t.TENSOR or (a.type and b.type and a.type.kind in ("List", "Dict")):
            same = self.builtin("is", a, b)
            return same if op == "Is" else self.builtin("not", same)
        refuse(f"`is` of {describe(a)} and {describe(b)}", "compare with ==")

    def contains(self, box, v):
        box = self.opened(box)
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

    # Conditions -----------------------------------------------------------------------------------

    def condition(self, node):
        """(a bool, {name: type} where it holds, {name: type} where it does not)."""
        before, self.node = self.node, node
        found = self._condition(node)
        self.node = before
        return found

    def _condition(self, node):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            v, yes, no = self.condition(node.operand)
            return static(not v.obj) if v.known else self.builtin("not", v), no, yes
        if isinstance(node, ast.BoolOp):
            return self.boolean(isinstance(node.op, ast.And), node.values)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            op = type(node.ops[0]).__name__
            a, b = self.expr(node.left), self.expr(node.comparators[0])
            v = self.truth(self.compared(op, a, b))
            yes, no = {}, {}
            if op in ("Is", "IsNot") and (a.is_none() or b.is_none()):
                side, x = (node.comparators[0], b) if a.is_none() else (node.left, a)
                side = side.target if isinstance(side, ast.NamedExpr) else side
                if isinstance(side, ast.Name) and x.type is not None and x.type.optional:
                    yes[side.id], no[side.id] = t.NONE, t.without(x.type, (t.NONE,))
                if op == "IsNot":
                    yes, no = no, yes
            return v, yes, no
        if isinstance(node, ast.Call) and isinstance(node.args[:1], list) and len(node.args) == 2:
            f = self.expr(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else None
            from rushlight import jit

            if f is not None and f.known and f.owner is None and f.obj in (isinstance, jit.isinstance):
                v, narrow, rest = self.is_instance(self.expr(node.args[0]), self.expr(node.args[1]))
                name = node.args[0].id if isinstance(node.args[0], ast.Name) else None
                if v.known or name is None:
                    return v, {}, {}
                return v, {name: narrow}, {name: rest}
        return self.truth(self.expr(node)), {}, {}

    def boolean(self, is_and, nodes):
        v, yes, no = self.condition(nodes[0])
        for node in nodes[1:]:
            if v.known:
                if bool(v.obj) != is_and:
                    return v, yes, no
                env = dict(self.env)
                self.narrow(yes if is_and else no)
                v, more_yes, more_no = self.condition(node)
                self.env.update({name: env[name] for name in (yes if is_and else no) if name in env})
                yes, no = ({**yes, **more_yes}, {}) if is_and else ({}, {**no, **more_no})
                continue
            kept = {}

            def other(node=node, yes=yes, no=no, kept=kept):
                env = dict(self.env)
                self.narrow(yes if is_and else no)
                found, kept["yes"], kept["no"] = self.condition(node)
                self.env = env
                return found

            v = self.both(v, other) if is_and else self.either(v, other)
            yes, no = ({**yes, **kept["yes"]}, {}) if is_and else ({}, {**no, **kept["no"]})
        return v, yes, no

    def expr_BoolOp(self, node):
        """A bool; or, where the values are no bools, the value that decides."""
        is_and = isinstance(node.op, ast.And)
        mark, out = len(self.locals), list(self.out)
        first = self.expr(node.values[0])
        if type_of(first) == t.BOOL or first.known and first.type is None:
            del self.locals[mark:]
            self.out[:] = out
            return self.boolean(is_and, node.values)[0]
        for node_ in node.values[1:]:
            held = self.truth(first)
            if held.known:
                first = self.expr(node_) if bool(held.obj) == is_and else first
                continue
            keep = (lambda first=first: first)
            further = (lambda node_=node_: self.expr(node_))
            first = self.chosen(held, further if is_and else keep, keep if is_and else further)
        return first

    def both(self, v, other):
        """v and other(), a bool."""
        if v.known:
            return other() if v.obj else v
        return self.chosen(v, other, lambda: static(False))

    def either(self, v, other):
        if v.known:
            return v if v.obj else other()
        return self.chosen(v, lambda: static(True), other)

    def chosen(self, condition, yes, no):
        """The value of one of two functions, by a bool."""
        outer, branches = self.out, []
        node = self.node
        for f in (yes, no):
            self.out = []
            v = f()
            branches.append((self.out, v))
            self.out = outer
            self.node = node
        (first, a), (second, b) = branches
        if a is b or (a.known and b.known and a.type is None and b.type is None and a.obj is b.obj):
            self.emit(**{"if": condition.operand, "then": first, "else": second})
            return a
        ta, tb = type_of(a), type_of(b)
        wanted = ta and tb and (t.FLOAT if {ta, tb} == {t.INT, t.FLOAT} else t.common(ta, tb))
        if not wanted:
            refuse(f"the value is {describe(a)} in one case and {describe(b)} in the other")
        to = self.local(wanted)
        for statements, v in branches:
            self.out = statements
            self.move_to(to, v, wanted)
            self.out = outer
        self.emit(**{"if": condition.operand, "then": first, "else": second})
        return Val(wanted, to)

    def expr_IfExp(self, node):
        v, yes, no = self.condition(node.test)
        if v.known:
            env = dict(self.env)
            self.narrow(yes if v.obj else no)
            found = self.expr(node.body if v.obj else node.orelse)
            self.env = env
            return found

        def branch(part, types):
            def run():
                env = dict(self.env)
                self.narrow(types)
                found = self.expr(part)
                self.env = env
                return found

            return run

        return self.chosen(v, branch(node.body, yes), branch(node.orelse, no))

    def narrow(self, types):
        """Names are of these types from here on."""
        for name, type in types.items():
            v = self.env.get(name)
            if v is None or isinstance(v, str) or v.type is None or v.type == type or type is None:
                continue
            self.env[name] = self.narrowed(v, type)

    def narrowed(self, v, type):
        if v.is_none() or type == t.NONE:
            found = Val(t.NONE, NONE.operand, None)
        else:
            to = self.local(type)
            self.emit(cast=v.operand, to=to)
            found = Val(type, to)
        found.origin = v.origin or v
        return found

    def is_instance(self, v, cls):
        """(a bool, the type where it is one, the type where it is not)."""
        from rushlight.nn import Module

        given = cls.obj if cls.known else tuple(i.obj for i in cls.items)
        classes = given if isinstance(given, tuple) else (given,)
        if v.type is None and v.items is None and v.known and (
            isinstance(v.obj, Module) or t.of_object(v.obj) is None
        ):
            return static(isinstance(v.obj, classes)), None, None
        mine = type_of(v)
        if mine is None:
            refuse(f"isinstance of {describe(v)}")
        wanted = []
        for c in classes:
            loose = {list: "List", tuple: "Tuple", dict: "Dict"}.get(c)
            for one in mine.items if mine.kind == "Union" else (mine,):
                if one.kind == loose or (loose is None and self._is_class(c, one)):
                    wanted.append(one)
        members = list(mine.items) if mine.kind == "Union" else [mine]
        if len(set(wanted)) == len(members) or not wanted:
            return static(bool(wanted)), mine, None
        order = ["None", "Tensor", "bool", "int", "float", "str", "dtype", "Device", "layout",
                 "memory_format", "Tuple", "List", "Dict"]  # fmt: skip
        mask = sum({1 << order.index(w.kind) for w in wanted})
        return self.builtin("is_kind", v, static(mask)), t.union(*wanted), t.without(mine, wanted)

    def _is_class(self, c, one):
        try:
            wanted = t.of_annotation(c, self.source.scope)
        except Exception:
            return False
        return t.is_subtype(one, wanted) or (wanted == t.INT and one == t.BOOL)

    # Indexing -------------------------------------------------------------------------------------

    def expr_Subscript(self, node):
        v = self.opened(self.expr(node.value))
        if v.type is None and v.items is None and v.known and isinstance(v.obj, type | object):
            found = self.static_item(v, node)
            if found is not None:
                return found
            v = self.opened(v) if not isinstance(v.obj, dict) else self.as_val(v)
        if v.type == t.TENSOR:
            return self.tensor_index(v, self.indices(node.slice))
        if isinstance(node.slice, ast.Slice):
            return self.sliced(v, node.slice)
        index = self.expr(node.slice)
        if v.items is not None:
            if index.known:
                if not isinstance(index.obj, int) or not -len(v.items) <= index.obj < len(v.items):
                    refuse(f"the index {index.obj!r} is out of range for {describe(v)}")
                return v.items[index.obj]
            if v.display == "tuple" and len({str(type_of(i)) for i in v.items}) != 1:
                refuse("the index of a tuple must be a number that stands in the program", "use a list")
            v = self.as_val(pack(v.items, "list"))
        if v.type.kind == "Tuple":
            n = len(v.type.items)
            if not index.known or not isinstance(index.obj, int):
                if n and all(i == v.type.items[0] for i in v.type.items):
                    return self.builtin("get", self.as_val(v, t.List(v.type.items[0])), index)
                refuse("the index of a tuple must be a number that stands in the program", "use a list")
            if not -n <= index.obj < n:
                refuse(f"the index {index.obj} is out of range for {v.type}")
            return self.tuple_item(v, index.obj % n)
        if v.type.kind == "List":
            return self.builtin("get", v, index)
        if v.type.kind == "Dict":
            return self.builtin("get_key", v, index)
        if v.type == t.STR:
            return self.builtin("get_str", v, index)
        hint = "check that it is not None first" if v.type.optional else None
        refuse(f"{v.type} has no items", hint)

    def static_item(self, v, node):
        """An item of a Python object: a ModuleList, a dict of constants, a type like List[int]."""
        from rushlight.nn import Module

        if isinstance(v.obj, Module):
            if isinstance(node.slice, ast.Slice):
                bounds = [None if p is None else self.expr(p) for p in (node.slice.lower, node.slice.upper, node.slice.step)]
                return static(v.obj[slice(*(None if b is None else b.obj for b in bounds))])
            index = self.expr(node.slice)
            if not index.known:
                refuse("modules are picked by a number or a name that stands in the program",
                       "loop over them")  # fmt: skip
            return static(v.obj[index.obj])
        if isinstance(v.obj, dict):
            index = self.expr(node.slice)
            if index.known and (v.display != "dict"):
                if index.obj not in v.obj:
                    refuse(f"the key {index.obj!r} is not there")
                return self.lifted(v.obj[index.obj])
            return None
        if isinstance(v.obj, tuple | list | str):
            return None
        index = self.expr(node.slice)
        if not index.known:
            refuse(f"{describe(v)}[...] is not known")
        return static(v.obj[index.obj])

    def sliced(self, v, node):
        parts = [NONE if p is None else self.expr(p) for p in (node.lower, node.upper, node.step)]
        if v.known and v.type is None and v.items is None:
            v = self.opened(v)
        if v.items is not None:
            if all(p.known for p in parts):
                return pack(v.items[slice(*(p.obj for p in parts))], v.display)
            v = self.as_val(pack(v.items, "list"))
        if v.known and v.type == t.STR and all(p.known for p in parts):
            return static(v.obj[slice(*(p.obj for p in parts))])
        if v.type.kind == "Tuple":
            if not all(p.known for p in parts):
                refuse("the bounds of a slice of a tuple must stand in the program")
            return pack(self.unpacked(v, None)[slice(*(p.obj for p in parts))])
        name = "slice_str" if v.type == t.STR else "slice_list" if v.type.kind == "List" else None
        if name is None:
            refuse(f"{v.type} cannot be sliced")
        return self.builtin(name, v, *parts)

    def indices(self, node):
        """What stands between the brackets of a tensor, one entry per part."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found = []
        for part in parts:
            if isinstance(part, ast.Slice):
                found.append([NONE if p is None else self.expr(p) for p in (part.lower, part.upper, part.step)])
                continue
            v = self.opened(self.expr(part))
            if not isinstance(node, ast.Tuple) and v.items is not None and v.display == "tuple":
                found += v.items
            else:
                found.append(v)
        return found

    def tensor_index(self, v, parts):
        """A view by numbers, slices and None, then a look-up by tensors."""
        view, tensors = self.viewed(v, parts)
        if tensors:
            return self.op("index", view, pack(tensors, "list"))
        return view if view is not v else self.op("alias", v)

    def viewed(self, v, parts):
        """(the view, an index or None per dimension; [] where no tensor is among the indices)."""
        dots = next((i for i, p in enumerate(parts) if isinstance(p, Val) and p.known and p.obj is Ellipsis), None)
        front, back = (parts, []) if dots is None else (parts[:dots], parts[dots + 1 :])
        tensors = []
        for p in front:
            v = self.one_index(v, p, len(tensors), tensors)
        # After ..., dimensions are counted from the end: each index but None stands for one.
        dim = -sum(1 for p in back if isinstance(p, list) or not p.is_none())
        found_back = []
        for p in back:
            # None gives a dimension that lies before `dim`; a number takes one away.
            is_none = isinstance(p, Val) and p.is_none()
            v = self.one_index(v, p, dim - 1 if is_none else dim, found_back)
            dim += 0 if is_none else 1
        if any(x is not NONE for x in found_back):
            refuse("tensors as indices after ... are not there in programs", "write the slices out")
        return v, tensors if any(x is not NONE for x in tensors) else []

    def one_index(self, v, p, dim, tensors):
        """v[..., p, ...] at a dimension; notes in `tensors` what stays there."""
        if isinstance(p, list):
            tensors.append(NONE)
            if all(b.is_none() for b in p):
                return v
            return self.op("slice", v, static(dim), p[0], p[1], static(1) if p[2].is_none() else p[2])
        if p.is_none():
            tensors.append(NONE)
            return self.op("unsqueeze", v, static(dim))
        kind = type_of(p)
        if kind == t.INT:
            return self.op("select", v, static(dim), p)
        if kind is not None and kind.kind == "List":
            p, kind = self.builtin("tensor", p, NONE, self.builtin("device", v), static(False)), t.TENSOR
        if kind != t.TENSOR:
            refuse(f"a tensor cannot be indexed with {describe(p)}")
        tensors.append(p)
        return v

    def assign_index(self, v, parts, value):
        """v[parts] = value"""
        view, tensors = self.viewed(v, parts)
        if tensors:
            value = self.as_val(value)
            if value.type != t.TENSOR:
                value = self.op("full", self.pack_list([]), value, dtype=self.builtin("dtype", v), device=self.builtin("device", v))
            self.op("index_put_", view, pack(tensors, "list"), value)
            return
        value = self.as_val(value)
        if value.type == t.TENSOR:
            self.op("copy_", view, value)
        else:
            self.op("fill_", view, value)

    def pack_list(self, items):
        return pack(items, "list")

    # Calls ----------------------------------------------------------------------------------------

    def expr_Call(self, node):
        f = self.super_method(node) or self.expr(node.func)
        self.node = node
        lazy = self.lazy_call(f, node)
        if lazy is not None:
            return lazy
        args, starred = [], None
        for a in node.args:
            if isinstance(a, ast.Starred):
                v = self.opened(self.expr(a.value))
                if v.items is None and v.type is not None and v.type.kind == "List":
                    starred = self.spread(args, v)
                    args = [starred]
                    continue
                args += self.unpacked(v, None)
            elif starred is not None:
                last = args.pop()
                args.append(self.builtin("add_list", last, self.as_val(pack([self.expr(a)], "list"), last.type)))
            else:
                args.append(self.expr(a))
        kwargs = {}
        for k in node.keywords:
            if k.arg is None:
                v = self.expr(k.value)
                if not (v.known and isinstance(v.obj, dict)):
                    refuse("** needs a dict that is known before the program runs")
                kwargs.update({name: self.lifted(x) for name, x in v.obj.items()})
            else:
                kwargs[k.arg] = self.expr(k.value)
        self.node = node
        try:
            return self.call(f, args, kwargs)
        except TypeError as error:
            refuse(f"{describe(f)}: {error}")

    def spread(self, args, v):
        """f(a, *sizes): the arguments so far and the list, as one list."""
        if v.type != t.List(t.INT):
            refuse("* of a list whose length is not known needs ints (sizes)", "write the items out")
        if not args:
            return v
        return self.builtin("add_list", self.as_val(pack(args, "list"), v.type), v)

    def super_method(self, node):
        """super().name: a function of a base class, with self."""
        f = node.func
        if not (isinstance(f, ast.Attribute) and isinstance(f.value, ast.Call) and isinstance(f.value.func, ast.Name)
                and f.value.func.id == "super"):  # fmt: skip
            return None
        me = self.env.get("self")
        if me is None or self.source.owner is None:
            refuse("super() is there in methods of modules only")
        for cls in type(me.obj).__mro__[type(me.obj).__mro__.index(self.source.owner) + 1 :]:
            if f.attr in vars(cls):
                fn = vars(cls)[f.attr]

                def call(caller, *args, fn=fn, cls=cls, **kwargs):
                    return self.program.call_function(caller, fn, [me, *args], kwargs, cls)

                return Val(obj=Written(call))
        refuse(f"super() has no '{f.attr}'")

    def lazy_call(self, f, node):
        """Calls whose arguments are no values: generators, list(range(...)), and the like."""
        if not f.known or f.owner is not None and not (f.owner.type == t.STR and f.obj in ("join",)):
            return None
        if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.GeneratorExp):
            inner = node.args[0]
            listed = self.comprehension(inner, inner.elt)
            return self.call(f, [listed], {})
        if f.owner is None and f.obj in (list, tuple, sorted, sum, min, max, any, all, reversed, len) and node.args:
            if isinstance(node.args[0], ast.Call):
                inner = self.expr(node.args[0].func)
                if inner.known and inner.owner is None and inner.obj in (range, zip, enumerate, reversed):
                    if inner.obj is reversed and f.obj is not list:
                        return None
                    items = self.iterable(node.args[0])
                    listed = self.listed_from(items)
                    rest = {k.arg: self.expr(k.value) for k in node.keywords}
                    return self.call(f, [listed, *(self.expr(a) for a in node.args[1:])], rest)
        return None


