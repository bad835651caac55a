"""for, while, comprehensions."""

from __future__ import annotations

import ast

from rushlight.jit._script import types as t
from rushlight.jit._script.bodies import assigned_names, is_only_read, without_continue
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.expr import Expressions
from rushlight.jit._script.values import Val, describe, pack, static, type_of


class Items:
    """What a loop goes over: `length()` and `item(index)`, values of the program; or `known`, a
    list
    of values that are all there now, and over which loops are written out."""

    def __init__(self, length=None, item=None, known=None, fixed=True):
        self.length, self.item, self.known = length, item, known
        self.fixed = fixed  # the length cannot change while the loop runs


class Loops(Expressions):
    # What loops go over ---------------------------------------------------------------------------

    def iterable(self, node):
        if isinstance(node, ast.Call):
            f = self.expr(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else None
            if f is not None and f.known and f.owner is None:
                if f.obj is range:
                    return self.range_items([self.expr(a) for a in node.args])
                if f.obj is enumerate:
                    return self.enumerate_items(node)
                if f.obj is zip:
                    return self.zip_items([self.iterable(a) for a in node.args])
                if f.obj is reversed and len(node.args) == 1:
                    return self.reversed_items(self.iterable(node.args[0]))
        return self.items_of(self.expr(node))

    def range_items(self, args):
        args = [
            self.as_val(a, t.INT) if type_of(a) != t.TENSOR else self.builtin("int_tensor", a)
            for a in args
        ]
        if not 1 <= len(args) <= 3:
            refuse(f"range() takes 1 to 3 arguments, here are {len(args)}")
        start = args[0] if len(args) > 1 else static(0)
        stop = args[1] if len(args) > 1 else args[0]
        step = args[2] if len(args) > 2 else static(1)
        if step.known and step.obj == 0:
            refuse("the step of range() cannot be 0")
        simple = start.known and start.obj == 0 and step.known and step.obj == 1
        length = stop if simple else self.builtin("range_length", start, stop, step)

        def item(i):
            if simple:
                return i
            return self.binary("Add", start, self.binary("Mult", i, step))

        return Items(lambda: length, item)

    def enumerate_items(self, node):
        inner = self.iterable(node.args[0])
        start = static(0)
        if len(node.args) > 1:
            start = self.expr(node.args[1])
        for k in node.keywords:
            start = self.expr(k.value)
        if inner.known is not None:
            return Items(
                known=[
                    pack([self.binary("Add", start, static(i)), v])
                    for i, v in enumerate(inner.known)
                ]
            )
        return Items(
            inner.length,
            lambda i: pack(
                [
                    self.binary("Add", start, i) if not (start.known and start.obj == 0) else i,
                    inner.item(i),
                ]
            ),
            fixed=inner.fixed,
        )

    def zip_items(self, parts):
        if not parts:
            return Items(known=[])
        if all(p.known is not None for p in parts):
            return Items(known=[pack(vs) for vs in zip(*(p.known for p in parts), strict=False)])
        lengths = [static(len(p.known)) if p.known is not None else None for p in parts]
        written_out = [p for p in parts if p.known is not None]
        if written_out:
            # As many turns as there are modules; the others must have as many items.
            n = min(len(p.known) for p in written_out)
            return Items(
                known=[
                    pack([p.known[i] if p.known is not None else p.item(static(i)) for p in parts])
                    for i in range(n)
                ]
            )

        def length():
            found = None
            for p, n in zip(parts, lengths, strict=True):
                n = p.length() if n is None else n
                found = n if found is None else self.builtin("min_int", found, n)
            return found

        return Items(
            length, lambda i: pack([p.item(i) for p in parts]), fixed=all(p.fixed for p in parts)
        )

    def reversed_items(self, inner):
        if inner.known is not None:
            return Items(known=inner.known[::-1])
        length = inner.length()
        last = self.binary("Sub", length, static(1))
        return Items(lambda: length, lambda i: inner.item(self.binary("Sub", last, i)))

    def items_of(self, v):
        from rushlight.nn import Module, ModuleDict, ParameterDict

        v = self.opened(v)
        if v.items is not None:
            return Items(known=v.items)
        if v.type is None and v.known:
            if isinstance(v.obj, ModuleDict | ParameterDict | dict):
                return Items(known=[self.lifted(k) for k in v.obj])
            if isinstance(v.obj, Module):
                if not hasattr(v.obj, "__iter__"):
                    refuse(f"a {type(v.obj).__name__} cannot be looped over")
                return Items(known=[self.lifted(m) for m in v.obj])
            if isinstance(v.obj, range) or hasattr(v.obj, "__iter__"):
                return Items(known=[self.lifted(x) for x in v.obj])
            refuse(f"{describe(v)} cannot be looped over")
        kind = v.type.kind
        if kind == "List":
            return Items(
                lambda: self.builtin("len_list", v),
                lambda i: self.builtin("get", v, i),
                fixed=False,
            )
        if v.type == t.TENSOR:
            return Items(
                lambda: self.builtin("size", v, static(0)),
                lambda i: self.op("select", v, static(0), i),
            )
        if kind == "Dict":
            return self.items_of(self.builtin("keys", v))
        if v.type == t.STR:
            return self.items_of(self.builtin("characters", v))
        if kind == "Tuple":
            return Items(known=self.unpacked(v, None))
        hint = "check that it is not None first" if v.type.optional else None
        refuse(f"{v.type} cannot be looped over", hint)

    def listed(self, v):
        """What one can loop over, as a list of the program."""
        if type_of(v) is not None and type_of(v).kind == "List":
            return self.as_val(v)
        return self.listed_from(self.items_of(v))

    def listed_from(self, items):
        if items.known is not None:
            return pack(items.known, "list")
        return self.collected(items, lambda v: v)

    def mapped(self, v, f):
        return self.collected(self.items_of(v), f)

    def collected(self, items, f):
        """A list of f(item)."""
        to = self.local(None)
        self.emit(make=[], to=to)

        def body(v):
            operand, type = self.value(f(v))
            self.locals[to] = t.List(type)
            self.emit(do="append", args=[to, operand], to=None)

        self.turn(items, body)
        return Val(self.locals[to], to)

    def accumulated(self, v, start):
        """The sum of a list of tensors."""
        zero = self.as_val(start)
        total = self.builtin(
            "tensor",
            zero,
            Val(t.NONE, {"is": None}, None),
            Val(t.NONE, {"is": None}, None),
            static(False),
        )
        to = self.local(t.TENSOR)
        self.emit(move=total.operand, to=to)
        so_far = Val(t.TENSOR, to)
        self.turn(
            self.items_of(v), lambda x: self.move_to(to, self.binary("Add", so_far, x), t.TENSOR)
        )
        return so_far

    # Turns ----------------------------------------------------------------------------------------

    def turn(self, items, body):
        """A loop of the program; `body` gets the item."""
        index = self.local(t.INT)
        self.emit(move={"is": 0}, to=index)
        at = Val(t.INT, index)
        length = items.length() if items.fixed else None
        outer, self.out = self.out, []
        going = self.builtin("lt_int", at, length if length is not None else items.length())
        self.emit(**{"if": going.operand, "then": [], "else": [{"break": True}]})
        # The item is taken before the index goes on, so that `continue` needs nothing more.
        now = self.local(t.INT)
        self.emit(move=index, to=now)
        self.emit(do="add_int", args=[index, {"is": 1}], to=index)
        v = items.item(Val(t.INT, now))
        body(v)
        statements, self.out = self.out, outer
        self.emit(loop=statements)

    def stmt_For(self, node):
        if node.orelse:
            refuse("else after a loop is not there in programs")
        items = self.iterable(node.iter)
        if items.known is not None:
            return self.written_out(node, items.known)
        names = assigned_names([*node.body, node.target])
        target_names = assigned_names([node.target])
        self.looped(names, lambda: self.turn(items, lambda v: self.turned(node, v)), target_names)

    def turned(self, node, v):
        self.assign(node.target, v)
        self.block(node.body)
        if self.env is not None:
            self.end_turn()

    def written_out(self, node, items):
        if not items:
            return
        body = without_continue(node.body)
        ends = self._early_end(body)
        if ends is not None:
            return self.run_over(node, items, ends)
        read = {name for name in assigned_names([node.target]) if is_only_read(name, body)}
        for v in items:
            if self.env is None:
                return
            for name in read:
                self.env.pop(name, None)  # of another type, maybe, in each turn
            self.assign_known(node.target, v, read)
            self.block(body)

    def assign_known(self, target, v, read):
        """As assign does; but a list of constants that is only read needs to be none of the
        program, which would have to know the type of an empty one."""
        if isinstance(target, ast.Tuple) and not any(
            isinstance(part, ast.Starred) for part in target.elts
        ):
            for part, item in zip(target.elts, self.unpacked(v, len(target.elts)), strict=True):
                self.assign_known(part, item, read)
            return
        constants = v.items is not None and v.type is None and all(i.known for i in v.items)
        if isinstance(target, ast.Name) and target.id in read and constants:
            self.env[target.id] = v
        else:
            self.assign(target, v)

    def _early_end(self, body):
        """The first break or continue of the loop itself."""
        for part in body:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Break | ast.Continue) and not self._inside_loop(
                    part, inner
                ):
                    return inner
        return None

    def run_over(self, node, items, ends):
        """A loop over items that are known, and that break or continue ends early, cannot be
        written out; where they have one type, it goes over a list of the program."""
        types = {str(type_of(v)) for v in items}
        if len(types) != 1 or "None" in types:
            word = "break" if isinstance(ends, ast.Break) else "continue"
            self.node = ends
            refuse(
                f"{word} in a loop over modules or over a tuple of several types, which is written "
                "out once per item",
                "use if instead",
            )
        running = self._as_running(Items(known=items))
        names = assigned_names([*node.body, node.target])
        target_names = assigned_names([node.target])
        self.looped(names, lambda: self.turn(running, lambda v: self.turned(node, v)), target_names)

    @staticmethod
    def _inside_loop(part, inner):
        return any(
            isinstance(outer, ast.For | ast.While) and any(n is inner for n in ast.walk(outer))
            for outer in ast.walk(part)
        )

    def stmt_While(self, node):
        if node.orelse:
            refuse("else after a loop is not there in programs")

        def run():
            outer, self.out = self.out, []
            v, yes, _ = self.condition(node.test)
            ends = True
            if v.known:
                if not v.obj:
                    self.out = outer
                    return
                ends = False
            else:
                self.emit(**{"if": v.operand, "then": [], "else": [{"break": True}]})
            self.narrow(yes)
            self.block(node.body)
            if self.env is not None:
                self.end_turn()
            statements, self.out = self.out, outer
            self.emit(loop=statements)
            if not ends and not self.loop_breaks[-1]:
                self.forever = True

        self.forever = False
        self.looped(assigned_names(node.body), run)
        if self.forever:
            self.env, self.forever = None, False

    def looped(self, names, run, targets=()):
        """Runs `run`, which writes a loop, with a local for each variable that the loop changes."""
        enclosing, self.enclosing = self.enclosing, self.named_outside()
        try:
            self._looped(names, run, targets)
        finally:
            self.enclosing = enclosing

    def _looped(self, names, run, targets):
        carried = {}
        for name in sorted(names):
            v = self.env.get(name)
            if v is None or isinstance(v, str):
                continue
            type = self.declared.get(name) or type_of(v)
            if type is None:
                if v.known and name not in targets:
                    refuse(
                        f"'{name}' is {describe(v)} and changes in a loop, which only values can"
                    )
                continue
            to = self.local(type)
            self.move_to(to, v, type)
            carried[name] = Val(type, to)
        before = dict(self.env)
        self.env.update(carried)
        self.loops.append(carried)
        self.loop_breaks.append(False)
        run()
        self.loop_breaks.pop()
        self.loops.pop()
        self.env = {**before, **carried}
        for name in names - set(carried):
            if name not in before or isinstance(before[name], str):
                self.env[name] = (
                    f"the variable '{name}' gets its value in a loop that may have no turn; "
                    "give it one before"
                )

    def end_turn(self):
        """Brings the variables of the loop to their places."""
        moves = []
        for name, place in self.loops[-1].items():
            v = self.env[name]
            if isinstance(v, str):
                refuse(v)
            if v is place:
                continue
            try:
                moves.append((place, self.as_val(v, place.type)))
            except Exception:
                refuse(
                    f"the variable '{name}' was {place.type} before the loop and is "
                    f"{describe(v)} in it",
                    f"annotate it where it gets its first value (`{name}: Optional[...] = "
                    "...`), or use another name",
                )
        # Two variables may have been swapped: all are read before any is written.
        places = {p.operand for p, _ in moves}
        late = []
        for place, v in moves:
            if isinstance(v.operand, int) and v.operand in places:
                held = self.local(v.type)
                self.emit(move=v.operand, to=held)
                v = Val(v.type, held)
            late.append((place, v))
        for place, v in late:
            self.emit(move=v.operand, to=place.operand)

    def stmt_Break(self, node):
        self.end_turn()
        self.loop_breaks[-1] = True
        self.emit(**{"break": True})
        self.env = None

    def stmt_Continue(self, node):
        self.end_turn()
        self.emit(**{"continue": True})
        self.env = None

    # Comprehensions -------------------------------------------------------------------------------

    def expr_ListComp(self, node):
        return self.comprehension(node, node.elt)

    def comprehension(self, node, elt):
        if len(node.generators) != 1:
            return self.nested_comprehension(node, elt)
        g = node.generators[0]
        items = self.iterable(g.iter)
        env = dict(self.env)
        if items.known is not None:
            found = []
            for v in items.known:
                self.assign(g.target, v)
                keep = [self.condition(c)[0] for c in g.ifs]
                if any(not k.known for k in keep):
                    self.env = env
                    return self.running_comprehension(self._as_running(items), g, elt)
                if all(k.obj for k in keep):
                    found.append(self.expr(elt))
            self.env = env
            return pack(found, "list")
        return self.running_comprehension(items, g, elt)

    def _as_running(self, items):
        return self.items_of(self.as_val(pack(items.known, "list")))

    def nested_comprehension(self, node, elt):
        to = self.local(None)
        self.emit(make=[], to=to)
        self._generators(node.generators, lambda: self._append(to, self.expr(elt)))
        return self._finished(to)

    def running_comprehension(self, items, g, elt):
        to = self.local(None)
        self.emit(make=[], to=to)
        self._generator(items, g, lambda: self._append(to, self.expr(elt)))
        return self._finished(to)

    def _append(self, to, v):
        operand, type = self.value(v)
        self.locals[to] = t.List(type)
        self.emit(do="append", args=[to, operand], to=None)

    def _finished(self, to):
        if self.locals[to] is None:
            self.locals[to] = t.List(t.TENSOR)
        return Val(self.locals[to], to)

    def _generators(self, generators, body):
        g, *rest = generators
        inner = (lambda: self._generators(rest, body)) if rest else body
        items = self.iterable(g.iter)
        self._generator(self._as_running(items) if items.known is not None else items, g, inner)

    def _generator(self, items, g, body):
        env = dict(self.env)

        def one(v):
            self.assign(g.target, v)
            for test in g.ifs:
                c, yes, _ = self.condition(test)
                if c.known and c.obj:
                    continue
                self.emit(**{"if": c.operand, "then": [], "else": [{"continue": True}]})
                self.narrow(yes)
            body()

        self.turn(items, one)
        self.env = env

    def dict_of_pairs(self, v):
        """dict() of a list of pairs."""
        key, item = v.type.items[0].items
        to = self.result(t.Dict(key, item), make=[])
        self.turn(
            self.items_of(v), lambda pair: self.builtin("set_key", to, *self.unpacked(pair, 2))
        )
        return to

    def expr_DictComp(self, node):
        to = self.local(None)
        self.emit(make=[], to=to)

        def body():
            key, key_type = self.value(self.expr(node.key))
            item, item_type = self.value(self.expr(node.value))
            self.locals[to] = t.Dict(key_type, item_type)
            self.emit(do="set_key", args=[to, key, item], to=None)

        self._generators(node.generators, body)
        if self.locals[to] is None:
            self.locals[to] = t.Dict(t.STR, t.TENSOR)
        return Val(self.locals[to], to)
