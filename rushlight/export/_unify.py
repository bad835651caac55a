"""One program of several traces: their numbers become constants or follow sizes."""

from __future__ import annotations

from typing import Any, cast

from rushlight.export._symbols import evaluate, is_float, sizes_in

__all__ = ["Mismatch", "Numbers", "Writer", "merged", "statements_of", "value_locals"]

_MOST_BASES = 48  # sizes whose products and sums are tried


class Mismatch(Exception):
    """The traces differ in more than numbers, or in a number that follows no size."""

    def __init__(self, op: int, other: int, number: Any = None) -> None:
        super().__init__()
        self.op, self.other, self.number = op, other, number


class Numbers:
    """Finds the expression that gives a number in all traces."""

    def __init__(self, traces: list[Any]) -> None:
        self.traces = traces
        self.known: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.bases: list[tuple[tuple[int, ...], tuple[Any, ...]]] = []
        count = len(traces[0].sizes)
        for v in range(traces[0].num_inputs):
            self._add_sizes(v)
        for expr in traces[0].book.exprs:
            self._add(expr)
        for v in range(traces[0].num_inputs, count):
            self._add_sizes(v)

    def vector(self, expr: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Its values in the traces."""
        try:
            return tuple(
                evaluate(expr, lambda v, d, trace=trace: trace.sizes[v][d]) for trace in self.traces
            )
        except (ArithmeticError, IndexError, ValueError):
            return None

    def _add_sizes(self, v):
        for d in range(len(self.traces[0].sizes[v])):
            self._add(("size", v, d))

    def _add(self, expr):
        vector = self.vector(expr)
        if vector is None or len(set(vector)) == 1:
            return
        key = (*map(type, vector), *vector)
        if key not in self.known:
            self.known[key] = expr
            if expr[0] == "size" and len(self.bases) < _MOST_BASES:
                self.bases.append((vector, expr))

    def find(self, vector: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The expression with these values, or None."""
        key = (*map(type, vector), *vector)
        if key not in self.known:
            tries = self._float_forms() if isinstance(vector[0], float) else self._int_forms(vector)
            found = next((e for e in tries if self.vector(e) == vector), None)
            if found is None:
                return None
            self.known[key] = found
        return self.known[key]

    def _int_forms(self, vector):
        """k*c, c + k, c // k, and sums and products of two."""
        for values, c in self.bases:
            if values[0] and vector[0] % values[0] == 0:
                yield ("mul_int", ("is", vector[0] // values[0]), c)
            yield ("add_int", c, ("is", vector[0] - values[0]))
            if vector[0] > 0:
                low, high = values[0] // (vector[0] + 1), values[0] // vector[0]
                for k in range(max(low, 2), min(high, low + 64) + 1):
                    yield ("floordiv_int", c, ("is", k))
                    yield ("floordiv_int", ("add_int", c, ("is", k - 1)), ("is", k))
        for i, (values, c) in enumerate(self.bases):
            for others, e in self.bases[i:]:
                product = values[0] * others[0]
                if product and vector[0] % product == 0:
                    yield ("mul_int", ("is", vector[0] // product), ("mul_int", c, e))
                rest = ("is", vector[0] - values[0] - others[0])
                yield ("add_int", ("add_int", c, e), rest)

    def _float_forms(self):
        one = ("is", 1.0)
        for _, c in self.bases:
            x = ("float_int", c)
            root = ("math_sqrt", x)
            yield from (x, root, ("truediv_float", one, x), ("truediv_float", one, root),
                        ("pow_float", x, ("is", -0.5)), ("math_log", x))  # fmt: skip


def merged(nodes: list[Any], number: Any) -> Any:
    """What JSON trees have in common; number(values) makes an operand of what differs."""
    first = nodes[0]
    if all(node == first for node in nodes[1:]):
        return first
    if any(type(node) is not type(first) for node in nodes):
        raise Mismatch(0, 0)
    if isinstance(first, dict):
        if any(list(node) != list(first) for node in nodes):
            raise Mismatch(0, 0)
        if list(first) == ["is"]:
            values = tuple(node["is"] for node in nodes)
            kinds = {type(v) for v in values}
            if kinds not in ({int}, {float}):
                raise Mismatch(0, 0)
            return number(values)
        return {key: merged([node[key] for node in nodes], number) for key in first}
    if isinstance(first, list):
        if any(len(node) != len(first) for node in nodes):
            raise Mismatch(0, 0)
        return [merged(list(row), number) for row in zip(*nodes, strict=True)]
    raise Mismatch(0, 0)


def statements_of(body: list[Any]) -> Any:
    """All statements, those in `with` blocks among them, in the order in which they run."""
    for statement in body:
        yield statement
        if "with" in statement:
            yield from statements_of(statement["body"])


def value_locals(function: dict[str, Any]) -> list[int | None]:
    """Of each value of the trace: its local."""
    found: list[int | None] = list(range(len(function["inputs"])))
    lists: set[int] = set()
    for s in statements_of(function["body"]):
        found += new_values(s, function["locals"], lists)
    return found


def new_values(s: dict[str, Any], types: list[str], lists: set[int]) -> list[int]:
    """The locals of the trace's values that a statement makes; lists: those of operators so far."""
    if "op" in s:
        made = [to for to in s["to"] if to is not None]
        lists.update(to for to in made if types[to] == "List[Tensor]")
        return [to for to in made if types[to] != "List[Tensor]"]
    if s.get("do") == "get" and s["args"][0] in lists:
        return [s["to"]]
    return [s["to"]] if "move" in s else []  # what a scripted call gave


class Writer:
    """Writes the merged function: size reads after their values, numbers before their use."""

    def __init__(self, traces: list[Any], numbers: Numbers) -> None:
        self.traces, self.numbers = traces, numbers
        self.base = traces[0].function
        self.locals = list(self.base["locals"])
        self.made: dict[tuple[Any, ...], Any] = {}  # expression: operand
        self.out: list[Any] = []
        self.ops = 0
        self.values = value_locals(self.base)
        self.needed: dict[int, set[int]] = {}  # {value: dimensions}

    def need(self, expr: tuple[Any, ...]) -> None:
        """The expression is used somewhere."""
        for v, d in sizes_in(expr):
            self.needed.setdefault(v, set()).add(d)

    def local(self, type: str) -> int:
        """A new one."""
        self.locals.append(type)
        return len(self.locals) - 1

    def do(self, builtin: str, args: list[Any], type: str) -> int:
        """Writes a builtin; the local of its result."""
        to = self.local(type)
        self.out.append({"do": builtin, "args": args, "to": to})
        return to

    def operand(self, expr: tuple[Any, ...]) -> Any:
        """The expression as an operand, computed before where it must be."""
        if expr[0] == "is":
            return {"is": expr[1]}
        if expr not in self.made:
            if expr[0] == "size":
                args = [self.values[expr[1]], {"is": expr[2]}]
            else:
                args = [self.operand(e) for e in expr[1:]]
            self.made[expr] = self.do(expr[0], args, "float" if is_float(expr) else "int")
        return self.made[expr]

    def read_sizes(self, values: Any) -> None:
        """Those that are needed later, so that the tensors need not be kept."""
        for v in values:
            for d in sorted(self.needed.get(v, ())):
                self.operand(("size", v, d))

    def collect(self) -> None:
        """Which expressions there are; raises Mismatch."""

        def number(values):
            expr = self.numbers.find(values)
            if expr is None:
                raise Mismatch(0, 0, values)
            self.need(expr)
            return {"is": values[0]}

        self._walk([t.function["body"] for t in self.traces], number, write=False)

    def write(self, after: Any) -> list[Any]:
        """The statements; after(number of values so far) is called when there are new values."""
        self.ops = 0
        self._seen, self._lists = len(self.base["inputs"]), set()
        self._after = after
        self._walk(
            [t.function["body"] for t in self.traces],
            lambda values: self.operand(cast("tuple[Any, ...]", self.numbers.find(values))),
            write=True,
        )
        return self.out

    def _walk(self, bodies, number, write):
        longest = max(map(len, bodies))
        for k in range(longest):
            rows = [body[k] if k < len(body) else None for body in bodies]
            if rows[0] is not None and "with" in rows[0] and all(
                r is not None and r.get("with") == rows[0]["with"] for r in rows
            ):  # fmt: skip
                before, self.out = self.out, []
                self._walk([r["body"] for r in rows], number, write)
                inner, self.out = self.out, before
                if write:
                    self.out.append({"with": rows[0]["with"], "body": inner})
                continue
            try:
                if any(r is None for r in rows):
                    raise Mismatch(0, 0)
                statement = merged(rows, number)
            except Mismatch as why:
                other = next((i for i, r in enumerate(rows) if r != rows[0]), 0)
                raise Mismatch(self.ops, other, why.number) from None
            self.ops += "op" in rows[0] or "call" in rows[0]
            if write:
                self.out.append(statement)
                self._note(statement)

    def _note(self, statement):
        new = len(new_values(statement, self.base["locals"], self._lists))
        if new:
            fresh = range(self._seen, self._seen + new)
            self._seen += new
            self.read_sizes(fresh)
            self._after(self._seen)
