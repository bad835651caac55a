"""Conditions, and what they tell of types."""

from __future__ import annotations

import ast
import collections.abc
import numbers
import types
import typing

from rushlight.jit._script import types as t
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.operators import Operators
from rushlight.jit._script.values import NONE, Val, describe, static, type_of


def _flattened(classes):
    """The classes of isinstance(x, (A, (B, C))); numbers.Number is each kind of number."""
    if isinstance(classes, tuple):
        for inner in classes:
            yield from _flattened(inner)
    elif isinstance(classes, types.UnionType):
        yield from _flattened(typing.get_args(classes))
    elif classes is numbers.Number:
        yield from (int, float, bool)
    elif classes is collections.abc.Sequence:
        yield from (list, tuple, str)
    elif isinstance(classes, type) or typing.get_origin(classes) is not None:
        yield classes
    else:
        refuse(f"isinstance takes classes, and {classes!r} is none")


class Conditions(Operators):
    """and, or, not, if-else; a check for None or a type narrows a variable where it holds."""

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

            if (
                f is not None
                and f.known
                and f.owner is None
                and f.obj in (isinstance, jit.isinstance)
            ):
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
                self.env.update(
                    {name: env[name] for name in (yes if is_and else no) if name in env}
                )
                yes, no = ({**yes, **more_yes}, {}) if is_and else ({}, {**no, **more_no})
                continue
            kept = {}

            def other(node=node, yes=yes, no=no, kept=kept):
                env = dict(self.env)
                self.narrow(yes if is_and else no)
                found, kept["yes"], kept["no"] = self.condition(node)
                self.env, kept["decides"] = env, found.known and bool(found.obj) != is_and
                return found

            v = self.both(v, other) if is_and else self.either(v, other)
            if kept["decides"]:  # whatever the first was: `x and self.layer is not None`
                v = static(not is_and)
            yes, no = ({**yes, **kept["yes"]}, {}) if is_and else ({}, {**no, **kept["no"]})
        return v, yes, no

    def expr_BoolOp(self, node):
        """A bool; or, where the values are no bools, the value that decides."""
        is_and = isinstance(node.op, ast.And)
        mark, out = len(self.locals), list(self.out)
        first = self.expr(node.values[0])
        if type_of(first) == t.BOOL or (first.known and first.type is None):
            del self.locals[mark:]
            self.out[:] = out
            return self.boolean(is_and, node.values)[0]
        for node_ in node.values[1:]:
            held = self.truth(first)
            if held.known:
                first = self.expr(node_) if bool(held.obj) == is_and else first
                continue

            def keep(first=first):
                return first

            def further(node_=node_):
                return self.expr(node_)

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
        classes = tuple(_flattened(given))
        if (
            v.type is None
            and v.items is None
            and v.known
            and (isinstance(v.obj, Module) or t.of_object(v.obj) is None)
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
        mask = sum({1 << t.ORDER.index(w.kind) for w in wanted})
        return self.builtin("is_kind", v, static(mask)), t.union(*wanted), t.without(mine, wanted)

    def _is_class(self, c, one):
        try:
            wanted = t.of_annotation(c, self.source.scope)
        except Exception:
            return False
        return t.is_subtype(one, wanted) or (wanted == t.INT and one == t.BOOL)
