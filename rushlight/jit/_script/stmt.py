"""Statements and branches."""

from __future__ import annotations

import ast

from rushlight.jit._script import types as t
from rushlight.jit._script.bodies import assigned_names
from rushlight.jit._script.errors import Elsewhere, Refusal, ScriptError, located, refuse
from rushlight.jit._script.scopes import Scopes
from rushlight.jit._script.source import annotation_names
from rushlight.jit._script.values import NONE, Val, describe, pack, static, type_of

_WORDS = {
    "Try": "try",
    "TryStar": "try",
    "FunctionDef": "a function inside of a function",
    "AsyncFunctionDef": "async",
    "ClassDef": "a class",
    "Global": "global",
    "Nonlocal": "nonlocal",
    "Import": "import",
    "ImportFrom": "import",
    "Match": "match",
    "AsyncFor": "async",
    "AsyncWith": "async",
}


class Statements(Scopes):
    """The body of one function."""

    def __init__(self, program, source):
        super().__init__(program, source)
        self.loops, self.loop_breaks, self.forever = [], [], False
        self.returned = []  # types
        self.returns = None  # the annotated type
        # Variables that had a value before the branch or loop that is being compiled: what comes
        # after it needs them, so they keep their types. Elsewhere a name may mean something new.
        self.enclosing = frozenset()

    def named_outside(self):
        """For `enclosing`; functions of the library look at types where branches meet."""
        if self.source.library:
            return frozenset()
        return frozenset(name for name, v in self.env.items() if isinstance(v, Val))

    def block(self, nodes):
        for node in nodes:
            if self.env is None:
                return  # never reached
            self.statement(node)

    def statement(self, node):
        self.node = node
        try:
            handler = getattr(self, f"stmt_{type(node).__name__}", None)
            if handler is None:
                word = _WORDS.get(type(node).__name__, type(node).__name__)
                refuse(
                    f"{word} is not there in programs",
                    "leave the function to Python with @jit.ignore"
                    if word != "import"
                    else "import at the top of the file",
                )
            handler(node)
        except Refusal as why:
            raise located(str(why), self.source, self.node or node) from None
        except (ScriptError, Elsewhere):
            raise
        except Exception as error:
            reason = f"this cannot be compiled ({type(error).__name__}: {error})"
            raise located(reason, self.source, self.node or node) from error

    def stmt_Pass(self, node):
        pass

    def stmt_Expr(self, node):
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self.expr(node.value)

    def stmt_ImportFrom(self, node):
        if not self.source.library:
            refuse("import is not there in programs", "import at the top of the file")
        import importlib

        module = importlib.import_module(node.module)
        for alias in node.names:
            self.env[alias.asname or alias.name] = static(getattr(module, alias.name))

    def stmt_Try(self, node):
        """Of the library, where it only says an error in other words."""
        says = all(isinstance(handler.body[-1], ast.Raise) for handler in node.handlers)
        if not (self.source.library and says) or node.finalbody:
            refuse("try is not there in programs", "leave the function to Python with @jit.ignore")
        self.block([*node.body, *node.orelse])

    # Assignments ----------------------------------------------------------------------------------

    def stmt_Assign(self, node):
        if node.type_comment and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            annotation = self.commented_type(node.type_comment)
            annotated = ast.AnnAssign(node.targets[0], annotation, node.value, 1)
            return self.stmt_AnnAssign(ast.copy_location(annotated, node))
        if self.is_release(node):
            return self.stmt_Delete(node)
        v = self.expr(node.value)
        if len(node.targets) > 1 and v.type is None and v.items is not None:
            v = self.as_val(v)  # one list under several names
        for target in node.targets:
            # One that is known to stay empty needs no type.
            is_name = isinstance(target, ast.Name) and isinstance(node.value, ast.ListComp)
            if self.source.library and is_name and v.items == []:
                self.env[target.id] = v
            else:
                self.assign(target, v)

    def is_release(self, node):
        """`x = None` in the code of a graph of fx, which says that x is not needed any more."""
        return (
            self.source.file.startswith("<eval_with_key>")
            and isinstance(node.value, ast.Constant)
            and node.value.value is None
            and all(isinstance(target, ast.Name) for target in node.targets)
        )

    def stmt_AnnAssign(self, node):
        if node.value is None:
            if isinstance(node.target, ast.Name):
                self.declared[node.target.id] = self.annotation(node.annotation)
            return
        if self.source.library and "Any" in ast.unparse(node.annotation):
            return self.assign(node.target, self.expr(node.value))
        type = self.annotation(node.annotation)
        v = self.expr(node.value)
        try:
            v = self.as_val(v, type) if v.type is None or not t.is_subtype(v.type, type) else v
        except Refusal:
            refuse(f"expected a value of the annotated type {type}, got {describe(v)}")
        if isinstance(node.target, ast.Name):
            self.declared[node.target.id] = type
            if v.type != type and v.type is not None and not v.is_none():
                # It has the annotated type from now on, until a check narrows it.
                to = self.local(type)
                self.emit(move=v.operand, to=to)
                v = Val(type, to)
            elif v.is_none() and type != t.NONE:
                to = self.local(type)
                self.emit(move={"is": None}, to=to)
                v = Val(type, to)
        self.assign(node.target, v, annotated=True)

    @staticmethod
    def commented_type(text):
        """x = []  # type: List[int]"""
        try:
            return ast.fix_missing_locations(ast.parse(text.strip(), mode="eval").body)
        except SyntaxError:
            refuse(f"the type {text!r} of a comment cannot be read")

    def annotation(self, node):
        if isinstance(node, ast.Constant) and hasattr(node.value, "type"):
            return node.value.type  # an archive's, which is read and never evaluated
        try:
            names = {**annotation_names(), **self.source.scope}
            obj = eval(compile(ast.Expression(node), self.source.file, "eval"), {}, names)
        except Exception as error:
            refuse(f"the annotation {ast.unparse(node)!r} cannot be read ({error})")
        return t.of_annotation(obj, self.source.scope)

    def type_from(self, v):
        """The type that jit.annotate is given."""
        if v.known:
            return t.of_annotation(v.obj, self.source.scope)
        refuse("jit.annotate needs a type")

    def assign(self, target, v, annotated=False):
        if isinstance(target, ast.Name):
            return self.assign_name(target.id, v, annotated)
        if isinstance(target, ast.Tuple | ast.List):
            stars = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
            if not stars:
                parts = self.unpacked(v, len(target.elts))
            else:
                parts = self.star_unpacked(v, len(target.elts), stars[0])
            for part, item in zip(target.elts, parts, strict=True):
                self.assign(part.value if isinstance(part, ast.Starred) else part, item)
            return
        if isinstance(target, ast.Attribute):
            owner = self.expr(target.value)
            if owner.type is not None and owner.type.kind == "Object":
                return self.set_object_attribute(owner, target.attr, v)
            return self.program.set_attribute(self, owner, target.attr, v)
        if isinstance(target, ast.Subscript):
            return self.assign_item(target, v)
        refuse("this cannot be assigned to")

    def assign_name(self, name, v, annotated):
        declared = self.declared.get(name)
        if declared is not None and not annotated:
            try:
                v = self.as_val(v, declared)
            except Refusal:
                if name not in self.enclosing:  # nobody else has to know its type
                    del self.declared[name]
                    self.env.pop(name, None)
                    return self.assign_name(name, v, annotated)
                refuse(
                    f"the variable '{name}' was annotated as {declared} and cannot become "
                    f"{describe(v)} in a branch or loop",
                    "use another name",
                )
        elif v.items is not None and v.display == "list" and v.type is None:
            # It has an identity from now on, unless it holds what no list of a program can.
            if not v.items:
                v = self.opened_container(t.List(t.TENSOR))
            elif type_of(v) is not None and all(type_of(i) is not None for i in v.items):
                v = self.as_val(v)
        elif v.known and v.type is None and isinstance(v.obj, dict) and v.display == "dict":
            v = self.opened_container(t.Dict(t.STR, t.TENSOR))
        old = self.env.get(name)
        if name in self.enclosing and not annotated and isinstance(old, Val):
            was, now = type_of(old.origin or old), type_of(v)
            if (
                was is not None
                and now is not None
                and declared is None
                and t.common(was, now) is None
            ):
                refuse(
                    f"the variable '{name}' was {was} and cannot become {now} in a branch or loop",
                    "use another name",
                )
        self.env[name] = v

    def opened_container(self, type):
        """An empty list or dict whose type its first item tells."""
        type.open = True
        to = self.local(type)
        self.emit(make=[], to=to)
        return Val(type, to)

    def assign_item(self, target, v):
        box = self.expr(target.value)
        if box.type is not None and box.type.kind == "Object":
            return self.needs(box, "__setitem__", self.expr(target.slice), v)
        if box.type is None and (box.items is not None or box.known):
            refuse(f"{describe(box)} cannot be changed")
        if box.type == t.TENSOR:
            return self.assign_index(box, self.indices(target.slice), v)
        if isinstance(target.slice, ast.Slice):
            refuse("slices of lists cannot be assigned to in programs", "make a new list")
        index = self.expr(target.slice)
        if box.type.kind == "List":
            self.builtin("set", box, index, v)
        elif box.type.kind == "Dict":
            self.builtin("set_key", box, index, v)
        else:
            refuse(f"items of {box.type} cannot be changed")

    def unpacked(self, v, n):
        """The items of a tuple, or of a list that must have n."""
        v = self.opened(v)
        if v.items is None and v.known and v.type is None and hasattr(v.obj, "__iter__"):
            v = pack([self.lifted(x) for x in v.obj])
        if v.items is not None:
            items = list(v.items)
        elif v.type is not None and v.type.kind == "Tuple":
            items = [self.tuple_item(v, k) for k in range(len(v.type.items))]
        elif v.type is not None and v.type.kind == "List" and n is not None:
            return self.unpacked_list(v, n)
        elif v.type == t.TENSOR and n is not None:
            return self.unpacked_list(self.op("unbind", v), n)
        else:
            refuse(f"{describe(v)} cannot be unpacked")
        if n is not None and len(items) != n:
            refuse(f"{len(items)} values for {n} names")
        return items

    def unpacked_list(self, v, n):
        wrong = self.builtin("ne_int", self.builtin("len_list", v), static(n))
        outer, self.out = self.out, []
        message = self.builtin(
            "concat", static(f"expected {n} values to unpack, got "), self.builtin("len_list", v)
        )
        self.emit(**{"raise": "ValueError", "message": message.operand})
        then, self.out = self.out, outer
        self.emit(**{"if": wrong.operand, "then": then, "else": []})
        return [self.builtin("get", v, static(k)) for k in range(n)]

    def star_unpacked(self, v, n, star):
        v = self.opened(v)
        after = n - star - 1
        if v.items is not None or (v.type is not None and v.type.kind == "Tuple"):
            items = self.unpacked(v, None)
            if len(items) < n - 1:
                refuse(f"{len(items)} values for {n - 1} names")
            middle = items[star : len(items) - after]
            return [*items[:star], pack(middle, "list"), *items[len(items) - after :]]
        if v.type is None or v.type.kind != "List":
            refuse(f"{describe(v)} cannot be unpacked")
        end = NONE if after == 0 else static(-after)
        return [
            *(self.builtin("get", v, static(k)) for k in range(star)),
            self.builtin("slice_list", v, static(star), end, NONE),
            *(self.builtin("get", v, static(k - after)) for k in range(after)),
        ]

    def stmt_AugAssign(self, node):
        op = type(node.op).__name__
        target = node.target
        load = ast.parse(ast.unparse(target), mode="eval").body
        if isinstance(target, ast.Name):
            load = ast.Name(target.id, ast.Load())
        ast.copy_location(load, target)
        ast.fix_missing_locations(load)
        for inner in ast.walk(load):
            ast.copy_location(inner, target)
        old, new = self.expr(load), self.expr(node.value)
        if self.source.library and op == "Add" and new.items == []:
            return
        if old.type is not None and old.type.kind == "List" and op == "Add":
            self.builtin("extend", old, self.listed(new))
            return
        if old.type == t.TENSOR and isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
            from rushlight.jit._script.calls import overloads
            from rushlight.jit._script.operators import TENSOR_OPS

            name = TENSOR_OPS[op] + "_"
            if overloads(name) and op != "MatMult":
                result = self.op(name, old, new)
                if isinstance(target, ast.Subscript):
                    self.assign(target, result)
                elif isinstance(target, ast.Name):
                    self.assign(target, result)
                return
        self.assign(target, self.binary(op, old, new))

    def stmt_Delete(self, node):
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.env.pop(target.id, None)
                continue
            if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
                refuse("del is there for variables, and items of lists and dicts")
            box, index = self.expr(target.value), self.expr(target.slice)
            kind = box.type.kind if box.type else ""
            if kind not in ("List", "Dict"):
                refuse(f"items of {describe(box)} cannot be deleted")
            self.builtin("del" if kind == "List" else "del_key", box, index)

    # Branches -------------------------------------------------------------------------------------

    def stmt_If(self, node):
        v, yes, no = self.condition(node.test)
        if v.known:
            self.narrow(yes if v.obj else no)
            self.block(node.body if v.obj else node.orelse)
            return
        outer, before = self.out, self.env
        enclosing, self.enclosing = self.enclosing, self.named_outside()
        branches = []
        for nodes, types in ((node.body, yes), (node.orelse, no)):
            self.out, self.env = [], dict(before)
            declared = dict(self.declared)
            self.narrow(types)
            self.block(nodes)
            branches.append((self.out, self.env))
            self.declared = {
                **declared,
                **{k: d for k, d in self.declared.items() if k in before or k not in declared},
            }
        self.out, self.enclosing = outer, enclosing
        self.node = node
        self.env = self.joined(before, branches, assigned_names([*node.body, *node.orelse]))
        (first, _), (second, _) = branches
        self.emit(**{"if": v.operand, "then": first, "else": second})

    def joined(self, before, branches, assigned):
        """The variables after a branch; what differs gets a local that both branches write."""
        envs = [env for _, env in branches]
        if None in envs:
            return envs[0] if envs[1] is None else envs[1]
        found, outer = {}, self.out
        for name in sorted({*envs[0], *envs[1]}, key=str):
            a, b = envs[0].get(name), envs[1].get(name)
            if a is b:
                found[name] = a
                continue
            if not isinstance(a, Val) or not isinstance(b, Val):
                told = next((x for x in (a, b) if isinstance(x, str)), None)
                found[name] = told or (
                    f"the variable '{name}' has a value in one branch only; give it one in the "
                    "other branch or before"
                )
                continue
            if name not in assigned and (a.origin or a) is (b.origin or b):
                found[name] = before[name]
                continue
            if a.known and b.known and a.type is None and b.type is None and a.obj is b.obj:
                found[name] = a
                continue
            ta, tb = type_of(a), type_of(b)
            type = self.declared.get(name)
            if type is None and ta is not None and tb is not None:
                type = (
                    t.FLOAT
                    if {ta, tb} == {t.INT, t.FLOAT} and self.source.library
                    else t.common(ta, tb)
                )
            if type is not None and self.declared.get(name) is not None and ta == tb:
                type = ta  # both are narrower than what was annotated
            if type is None:
                found[name] = (
                    f"the variable '{name}' is {describe(a)} in one branch and {describe(b)} in "
                    "the other; use two names"
                )
                continue
            to = self.local(type)
            try:
                for (statements, _), v in zip(branches, (a, b), strict=True):
                    self.out = statements
                    self.move_to(to, v, type)
            finally:
                self.out = outer
            found[name] = Val(type, to)
        return found

    def stmt_Return(self, node):
        v = NONE if node.value is None else self.expr(node.value)
        if self.returns is not None:
            try:
                operand, type = self.as_type(v, self.returns)
            except Refusal:
                refuse(f"the function returns {describe(v)}, and {self.returns} was annotated")
        else:
            operand, type = self.value(v)
        self.returned.append(type)
        self.emit(**{"return": operand})
        self.env = None

    def stmt_Raise(self, node):
        if node.exc is None:
            refuse("raise needs an error to raise")
        v = self.expr(node.exc)
        if v.known and isinstance(v.obj, type) and issubclass(v.obj, BaseException):
            cls, args = v.obj, []
        elif (
            v.known and isinstance(v.obj, tuple) and len(v.obj) == 2 and isinstance(v.obj[0], type)
        ):
            cls, args = v.obj
        else:
            refuse("raise needs an exception class, or a call of one")
        if len(args) == 1:
            message = args[0]
            if message.type != t.STR:
                message = self.builtin("str", message)
        elif args:
            message = self.builtin("str", pack(args))
        else:
            message = static("")
        self.emit(**{"raise": cls.__name__, "message": message.operand})
        self.env = None

    def stmt_Assert(self, node):
        v, yes, _ = self.condition(node.test)
        if v.known and v.obj:
            self.narrow(yes)
            return
        outer, self.out, env = self.out, [], dict(self.env)
        message = static("")
        if node.msg is not None:
            message = self.expr(node.msg)
            if message.type != t.STR:
                message = self.builtin("str", message)
        self.emit(**{"raise": "AssertionError", "message": message.operand})
        raised, self.out, self.env = self.out, outer, env
        if v.known:
            self.out += raised
            self.env = None
            return
        self.emit(**{"if": v.operand, "then": [], "else": raised})
        self.narrow(yes)

    def assert_(self, condition, message):
        v = self.truth(condition)
        if v.known and v.obj:
            return NONE
        raised = {"raise": "AssertionError", "message": self.as_val(message, t.STR).operand}
        operand = v.operand
        self.emit(**{"if": operand, "then": [], "else": [raised]})
        return NONE
