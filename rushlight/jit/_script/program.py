"""Functions and modules, and the program made of them."""

from __future__ import annotations

import inspect
import json
import typing

from rushlight import _C
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import (
    Elsewhere,
    Refusal,
    ScriptError,
    called_from,
    located,
    refuse,
)
from rushlight.jit._script.source import Source, defaults_of, is_ignored, signatures_of
from rushlight.jit._script.state import State, attribute_value
from rushlight.jit._script.stmt import Statements
from rushlight.jit._script.values import NONE, Nothing, Val, describe, static

__all__ = ["Program", "is_ignored"]


class Function(Statements):
    """One function that is being compiled: by itself, or written into its caller (`into`)."""

    def __init__(self, program, source, into=None):
        super().__init__(program, source)
        self.into, self.value_returned = into, None
        if into is not None:
            self.locals, self.out = into.locals, into.out
            self.base = self.out

    def emit(self, **statement):
        if self.into is None:
            return super().emit(**statement)
        self.out.append(statement)
        # Errors name the line of the user's function.
        at = self
        while at.into is not None:
            at = at.into
        statement["line"] = at.source.first_line + getattr(at.node, "lineno", 1) - 1
        return statement

    def stmt_Return(self, node):
        if self.into is None:
            return super().stmt_Return(node)
        if self.out is not self.base or self.loops:
            raise Elsewhere
        self.value_returned = NONE if node.value is None else self.expr(node.value)
        self.env = None


def _constant_key(v):
    """What a library function is compiled anew for."""
    if v.known and (
        v.type is None or v.type in (t.BOOL, t.INT, t.FLOAT, t.STR, t.NONE, t.DTYPE, t.FORMAT)
    ):
        obj = v.obj
        hashable = isinstance(obj, bool | int | float | str | type(None))
        return ("known", type(obj).__name__, repr(obj) if hashable else id(obj))
    if v.items is not None:
        return ("items", v.display, tuple(_constant_key(i) for i in v.items))
    return ("type", str(v.type))


class Program(State):
    """What is made: functions, state, attributes, constants."""

    def __init__(self, root=None, rows=(), aliases=()):
        super().__init__(root, rows, aliases)
        self.functions, self.made, self.under_way = [], {}, []

    # Calls ----------------------------------------------------------------------------------------

    def call_module(self, caller, module, method, args, kwargs):
        from rushlight.jit._program import TracedModule
        from rushlight.jit._script.library import replacement

        source = getattr(module, "_script_source", None)
        if source is not None:
            module = source
        elif isinstance(module, TracedModule):
            refuse(
                "a traced or loaded program inside of a script is not there yet",
                "script the module itself",
            )
        if method == "forward" and (module._forward_hooks or module._forward_pre_hooks):
            refuse(
                f"{type(module).__name__} has forward hooks, which are Python",
                "remove them before scripting",
            )
        fn = replacement(module, method)
        owner = next((cls for cls in type(module).__mro__ if method in vars(cls)), None)
        if fn is None:
            fn = vars(module).get(method) or getattr(type(module), method)
            fn = getattr(fn, "__func__", fn)
        if is_ignored(fn) in ("ignore", "unused"):
            return self.unused(caller, fn)
        return self.call_function(caller, fn, [static(module), *args], kwargs, owner)

    def unused(self, caller, fn):
        """A function that is left out raises where it is reached."""
        hints = getattr(fn, "__annotations__", {}).get("return")
        result = t.TENSOR if hints is None else t.of_annotation(hints, fn.__globals__)
        word = "unused" if is_ignored(fn) == "unused" else "ignored"
        text = f"{fn.__name__} is marked {word} and is not part of the program"
        raised = {"raise": "RuntimeError", "message": {"is": text}}
        caller.emit(**{"if": {"is": True}, "then": [raised], "else": []})
        zero = {
            "Tensor": lambda: caller.builtin("tensor", static(0), NONE, NONE, static(False)),
            "int": lambda: static(0),
            "float": lambda: static(0.0),
            "bool": lambda: static(False),
            "str": lambda: static(""),
            "None": lambda: NONE,
        }.get(result.kind)
        if zero is not None:
            return zero()
        if result.optional:
            return Val(result, {"is": None})
        if result.kind in ("List", "Dict"):
            return caller.result(result, make=[])
        refuse(f"a function that is marked {word} cannot return {result} in a program")

    def call_function(self, caller, fn, args, kwargs, owner=None):
        from rushlight.jit._script.library import function_for

        fn = inspect.unwrap(function_for(fn))
        if is_ignored(fn) in ("ignore", "unused"):
            return self.unused(caller, fn)
        fn = getattr(fn, "_rushlight_source", fn)
        try:
            source = Source(fn, owner)
        except ScriptError as error:
            refuse(str(error).removeprefix("script: "))
        if args and args[0].type is not None and args[0].type.kind == "Object" and owner:
            source.hints = {**source.hints, source.parameters[0]: args[0].type}
        given = self.arguments(source, args, kwargs)
        if source.library:
            return self.call_library(caller, source, given)
        forms, reasons = signatures_of(fn), []
        for form in forms:
            mark, out = len(caller.locals), list(caller.out)
            source.hints = form
            try:
                return self.call_user(caller, source, given)
            except Refusal as why:
                del caller.locals[mark:]
                caller.out[:] = out
                reasons.append(str(why))
        if forms:
            given = ", ".join(describe(v) for v in [*args, *kwargs.values()])
            why = "; ".join(dict.fromkeys(reasons))
            refuse(f"no overload of {source.name} takes ({given}): {why}")
        return self.call_user(caller, source, given)

    def arguments(self, source, args, kwargs):
        """{parameter: value} of a call, in order, defaults included."""
        arguments = source.tree.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        only = [a.arg for a in arguments.kwonlyargs]
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names):
            if arguments.vararg is None:
                refuse(f"{source.name} takes {len(names)} arguments, here are {len(args)}")
            from rushlight.jit._script.values import pack

            given[arguments.vararg.arg] = pack(args[len(names) :])
        elif arguments.vararg is not None:
            from rushlight.jit._script.values import pack

            given[arguments.vararg.arg] = pack([])
        rest = {}
        for name, v in kwargs.items():
            if name in given:
                refuse(f"{source.name} gets the argument '{name}' twice")
            if name not in names + only:
                if arguments.kwarg is None:
                    refuse(f"{source.name} has no argument '{name}'")
                rest[name] = v
                continue
            given[name] = v
        if arguments.kwarg is not None:
            if not source.library and not all(v.known for v in rest.values()):
                refuse(f"{source.name} takes ** arguments, which programs know only as constants")
            given[arguments.kwarg.arg] = Val(
                obj={k: v.obj if v.known else v for k, v in rest.items()}
            )
        defaults = defaults_of(source)
        for name in names + only:
            if name in given:
                continue
            if name not in defaults:
                refuse(f"{source.name} needs the argument '{name}'")
            given[name] = static(defaults[name])
        return given

    def call_library(self, caller, source, given):
        """Functions of rushlight are compiled for what they are called with."""
        stack = [f.source.fn for _, f in self.under_way] + [f.source.fn for f in self.chain(caller)]
        if stack.count(source.fn) > 4:
            refuse(f"{source.name} calls itself")
        mark, out = len(caller.locals), len(caller.out)
        inner = Function(self, source, into=caller)
        inner.env = dict(given)
        try:
            self.compile(inner, caller)
            found = inner.value_returned
            if found is None and inner.env is None and out < len(caller.out):
                # It always raises as it is called here; what follows is compiled all the same.
                raised = caller.out.pop()
                caller.emit(**{"if": {"is": True}, "then": [raised], "else": []})
            return Nothing(source.name) if found is None else found
        except Elsewhere:
            del caller.locals[mark:]
            del caller.out[out:]
        key = (source.fn, tuple((k, _constant_key(v)) for k, v in given.items()))
        self.kept.append(given)
        params, env = [], {}
        for name, v in given.items():
            if (v.type is None and v.items is None) or v.known:
                env[name] = v
                continue
            operand, type = caller.value(v)
            params.append((name, type, operand))
        return self.call_compiled(caller, source, key, params, env, None)

    def chain(self, f):
        while f is not None:
            yield f
            f = getattr(f, "into", None)

    def call_user(self, caller, source, given):
        """Functions of the user have the types that they are annotated with."""
        params, env, statics = [], {}, []
        for a in (
            *source.tree.args.posonlyargs,
            *source.tree.args.args,
            *source.tree.args.kwonlyargs,
        ):
            v = given[a.arg]
            if v.known and v.type is None and v.items is None and t.of_object(v.obj) is None:
                env[a.arg] = v  # a module or a function
                statics.append((a.arg, id(v.obj)))
                continue
            if v.known and source.hints.get(a.arg) is typing.Any:
                env[a.arg] = v  # as the Nones of __exit__
                statics.append((a.arg, repr(v.obj)))
                continue
            type = self.parameter_type(source, a)
            try:
                operand, _ = caller.as_type(v, type)
            except Refusal as why:
                if a.annotation is None:
                    hint = f"annotate '{a.arg}' of {source.name}"
                    why = f"{why}; parameters without annotation are tensors: {hint}"
                refuse(f"the argument '{a.arg}' of {source.name}: {why}")
            params.append((a.arg, type, operand))
        for extra in (source.tree.args.vararg, source.tree.args.kwarg):
            if extra is not None:
                refuse(
                    f"{source.name} has *{extra.arg}, which programs do not know",
                    "write the parameters out",
                )
        return self.call_compiled(
            caller,
            source,
            (source.fn, tuple(statics), str(source.hints)),
            params,
            env,
            source.hints.get("return", _C),
        )

    def parameter_type(self, source, a):
        hint = source.hints.get(a.arg)
        if hint is None and a.annotation is None:
            return t.TENSOR
        try:
            return t.of_annotation(hint, source.scope)
        except Refusal as why:
            if source.library:
                return t.TENSOR
            raise located(f"the parameter '{a.arg}': {why}", source, a) from None

    def call_compiled(self, caller, source, key, params, env, returns):
        if key not in self.made:
            if any(k == key for k, _ in self.under_way):
                refuse(f"{source.name} calls itself, which programs cannot", "write a loop")
            self.made[key] = self.function(key, source, params, env, returns, caller)
        index, result = self.made[key]
        if result == t.NONE:
            caller.emit(call=index, args=[p[2] for p in params], to=None)
            return NONE
        return caller.result(result, call=index, args=[p[2] for p in params])

    def compile(self, f, caller=None):
        """The body of a function; errors name where it was called."""
        body = f.source.tree.body
        try:
            f.block(body)
        except ScriptError as error:
            if caller is None:
                raise
            raise called_from(error, caller.source, caller.node) from None

    def function(self, key, source, params, env, returns, caller=None, method=None):
        """Compiles one; (its number, its result)."""
        f = Function(self, source)
        f.env = dict(env)
        if (returns is not _C and returns is not None) or (
            returns is None and "return" in source.hints and not source.library
        ):
            try:
                f.returns = t.of_annotation(returns, source.scope)
            except Refusal as why:
                raise located(
                    f"the return type: {why}", source, source.tree.returns or source.tree
                ) from None
        for name, type, _ in params:
            f.env[name] = Val(type, f.local(type))
            if source.hints.get(name) is not None and not source.library:
                f.declared[name] = type
        self.under_way.append((key, f))
        try:
            self.compile(f, caller)
        finally:
            self.under_way.pop()
        result = f.returns
        if result is None:
            types = list(f.returned)
            if f.env is not None:
                types.append(t.NONE)
            result = types[0] if types else t.NONE
            for other in types[1:]:
                both = t.common(result, other)
                if both is None:
                    raise located(
                        f"it returns {result} in one place and {other} in another",
                        source,
                        source.tree,
                    )
                result = both
        elif f.env is not None and result != t.NONE and not result.optional:
            raise located(
                f"its end can be reached without a return, and {result} was annotated",
                source,
                source.tree,
            )
        if f.env is not None and result != t.NONE:
            f.emit(**{"return": {"is": None}})
        inputs = [{"name": name} for name, _, _ in params]
        if method is not None:
            self.fill_defaults(source, params, inputs)
        self.functions.append(
            {
                "name": method or source.name,
                "file": source.file,
                "method": method is not None,
                "inputs": inputs,
                "locals": [str(x) for x in f.locals],
                "returns": str(result),
                "body": f.out,
            }
        )
        return len(self.functions) - 1, result

    @staticmethod
    def fill_defaults(source, params, inputs):
        defaults = defaults_of(source)
        for (name, type, _), entry in zip(params, inputs, strict=True):
            if name not in defaults:
                continue
            v = static(defaults[name])
            if v.type == t.INT and type == t.FLOAT:
                v = static(float(v.obj))
            if v.type is None or not t.is_subtype(v.type, type):
                raise located(
                    f"the default of '{name}' is {describe(v)}, and it is {type}",
                    source,
                    source.tree,
                )
            entry["default"] = v.operand

    # Ways in --------------------------------------------------------------------------------------

    def add_method(self, fn, name, module=None, example=None, receiver=None):
        """A method of the program; with `receiver`, (class, type), a method of this class."""
        fn = inspect.unwrap(fn)
        owner = None
        if module is not None:
            owner = next((cls for cls in type(module).__mro__ if name in vars(cls)), None)
        source = Source(fn, owner if receiver is None else receiver[0])
        arguments = source.tree.args
        if receiver is not None and source.parameters:
            source.hints = {**source.hints, source.parameters[0]: receiver[1]}
        if arguments.vararg or arguments.kwarg:
            raise located(
                "* and ** parameters are not there in programs; write the parameters out",
                source,
                source.tree,
            )
        params, env = [], {}
        declared = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if module is not None:
            env[declared[0].arg] = static(module)
            declared = declared[1:]
        for i, a in enumerate(declared):
            if example is not None and i < len(example) and a.annotation is None:
                kind = t.of_object(example[i])
            else:
                kind = self.parameter_type(source, a)
            params.append((a.arg, kind, None))
        returns = _C if source.library else source.hints.get("return", _C)
        if returns is None and "return" in source.hints:
            returns = type(None)
        self.function((fn, name), source, params, env, returns, method=name)

    def code(self):
        """The program, as C++ has it."""
        from rushlight.jit._program import Code

        state = [
            {
                "name": name,
                "kind": "parameter" if is_parameter else "buffer",
                "requires_grad": tensor.requires_grad,
                "persistent": bool(persistent),
                "device": "cpu",
            }
            for name, tensor, is_parameter, persistent in self.rows
        ]
        text = json.dumps(
            {
                "format": 2,
                "table": 1,
                "library": "script",
                "training": bool(self.root is not None and self.root.training),
                "by_mode": False,
                "state": state,
                "aliases": [{"name": n, "state": s, "before": b} for n, s, b in self.aliases],
                "constants": ["cpu"] * len(self.constants),
                "methods": [],
                "attributes": [
                    {"name": n, "type": str(type), "value": attribute_value(v)}
                    for n, type, v in self.attributes
                ],
                "functions": self.functions,
            }
        )
        return Code(_C._jit_script(text, [row[1] for row in self.rows], self.constants))
