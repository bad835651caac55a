"""Expressions."""

from __future__ import annotations

import ast
import builtins as pybuiltins

from rushlight import _C
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import Refusal, refuse
from rushlight.jit._script.indexing import Indexing
from rushlight.jit._script.values import Listing, Val, describe, pack, static, type_of


class Written:
    """What is called while a function is compiled, with values."""

    def __init__(self, call):
        self.call = call


class Expressions(Indexing):
    """One method per node of Python's syntax."""

    def expr(self, node):
        before, self.node = self.node, node
        handler = getattr(self, f"expr_{type(node).__name__}", None)
        if handler is None:
            names = {
                "Lambda": "lambda",
                "Yield": "yield",
                "Await": "await",
                "Set": "a set",
                "SetComp": "a set",
                "GeneratorExp": "a generator",
                "NamedExpr": ":=",
            }
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
        if name == getattr(self.source, "me", None):
            missing = [f for f in self.source.fields if f"{name}.{f}" not in self.env]
            refuse(
                f"{name} is used before all its attributes have values"
                + (f" ('{missing[0]}' has none)" if missing else ""),
                "assign the attributes first, then call methods",
            )
        if name in self.source.local_names:
            refuse(
                f"the variable '{name}' is not defined here on every way that leads to this line",
                "give it a value before",
            )
        return self.name(name)

    def name(self, name):
        """A name from outside of the function."""
        scope = self.source.scope
        if name in scope:
            return self.global_value(name, scope[name])
        if hasattr(pybuiltins, name):
            return (
                Val(obj=getattr(pybuiltins, name))
                if name not in ("True", "False")
                else static(name == "True")
            )
        refuse(f"the name '{name}' is not defined")

    def global_value(self, name, obj):
        if isinstance(obj, _C.Tensor):
            if self.source.library:
                return self.lifted(obj)
            refuse(
                f"'{name}' is a tensor from outside of the function",
                "make it an argument, or a buffer of the module",
            )
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
        return (
            self.builtin("add_list", before, self.as_val(pack(found, "list"), before.type))
            if found
            else before
        )

    def expr_Dict(self, node):
        if not node.keys:
            return Val(obj={}, display="dict")
        if None in node.keys:
            refuse("** in a dict is not there in programs", "use update()")
        pairs = [(self.expr(k), self.expr(v)) for k, v in zip(node.keys, node.values, strict=True)]
        if self.source.library and all(k.known and v.known for k, v in pairs):
            return Val(obj={k.obj: v.obj for k, v in pairs})
        return self.made_dict(pairs)

    def made_dict(self, pairs):
        def one(vals, what):
            found = type_of(vals[0])
            for v in vals[1:]:
                found = found and type_of(v) and t.common(found, type_of(v))
            if found is None:
                refuse(
                    f"the {what} of a dict must have one type, here are "
                    f"{', '.join(map(describe, vals))}"
                )
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
            self.env, self.out = (
                {**env, **dict(zip((a.arg for a in node.args.args), args, strict=True))},
                caller.out,
            )
            try:
                return self.expr(node.body)
            finally:
                self.env, self.out = kept

        return Val(obj=Written(call))

    def expr_GeneratorExp(self, node):
        """Of the library: what is unpacked or looped over, as a list."""
        if not self.source.library:
            refuse("a generator is not there in programs", "write it in statements")
        return self.comprehension(node, node.elt)

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
            try:
                v = self.text_of(self.expr(part.value), conversion == "r")
            except Refusal:
                if not self.source.library:
                    raise
                pieces.append(static("..."))  # of a message, which is there to be understood
                continue
            if isinstance(v, Listing) and self.source.library:
                v = v.tensor
            if v.known and v.type is None and v.items is None:
                v = static(str(v.obj))
            pieces.append(self.formatted(v, spec, conversion))
        return self.concatenated(pieces)

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
                    more = starred is not None
                    starred = self.builtin("add_list", args[0], v) if more else self.spread(args, v)
                    args = [starred]
                    continue
                args += self.unpacked(v, None)
            elif starred is not None:
                last = args.pop()
                args.append(
                    self.builtin(
                        "add_list", last, self.as_val(pack([self.expr(a)], "list"), last.type)
                    )
                )
            else:
                args.append(self.expr(a))
        kwargs = {}
        for k in node.keywords:
            if k.arg is None:
                v = self.expr(k.value)
                if not (v.known and isinstance(v.obj, dict)):
                    refuse("** needs a dict that is known before the program runs")
                for name, x in v.obj.items():
                    kwargs[name] = x if isinstance(x, Val) else self.lifted(x)
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
            refuse(
                "* of a list whose length is not known needs ints (sizes)", "write the items out"
            )
        if not args:
            return v
        return self.builtin("add_list", self.as_val(pack(args, "list"), v.type), v)

    def super_method(self, node):
        """super().name: a function of a base class, with self."""
        f = node.func
        if not (
            isinstance(f, ast.Attribute)
            and isinstance(f.value, ast.Call)
            and isinstance(f.value.func, ast.Name)
            and f.value.func.id == "super"
        ):
            return None
        me = self.env.get("self")
        if me is None or self.source.owner is None or not me.known:
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
        if not f.known or (
            f.owner is not None and not (f.owner.type == t.STR and f.obj in ("join",))
        ):
            return None
        if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.GeneratorExp):
            inner = node.args[0]
            listed = self.comprehension(inner, inner.elt)
            return self.call(f, [listed], {})
        if (
            f.owner is None
            and f.obj in (list, tuple, sorted, sum, min, max, any, all, reversed, len)
            and node.args
        ):
            if isinstance(node.args[0], ast.Call):
                inner = self.expr(node.args[0].func)
                if (
                    inner.known
                    and inner.owner is None
                    and inner.obj in (range, zip, enumerate, reversed)
                ):
                    if inner.obj is reversed and f.obj is not list:
                        return None
                    items = self.iterable(node.args[0])
                    listed = self.listed_from(items)
                    rest = {k.arg: self.expr(k.value) for k in node.keywords}
                    return self.call(f, [listed, *(self.expr(a) for a in node.args[1:])], rest)
        return None
