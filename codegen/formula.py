"""The formulas of `profile:`: integer arithmetic over the shapes of arguments and results.

    2 * numel(out) * size(self, -1)

Operators: + - * // and brackets. Names: the row's tensors and lists inside functions, its ints and
bools as numbers; `out` is the result, or several have their names (`out0`, `out1` without one).
"""

import ast

from row import TableError

# name -> what it takes: a tensor (or list of them), a list of ints, or a number. The functions
# stand in csrc/ops/framework/cost.h.
FUNCTIONS = {
    "numel": ("tensor",),
    "bytes": ("tensor",),
    "size": ("tensor", "number"),
    "extent": ("tensor", "ints"),
    "prod": ("ints",),
    "log2": ("number",),
    "max": ("number", "number"),
    "min": ("number", "number"),
}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
TENSORS = ("Tensor", "Operand", "Tensors")
KINDS = {"tensor": TENSORS, "ints": ("Ints",)}


def result_names(row):
    if len(row.results) == 1:
        return ("out",)
    return row.result_names or tuple(f"out{i}" for i in range(len(row.results)))


class Formula:
    """One formula of a row, checked and written in C++."""

    def __init__(self, text, row):
        self.text, self.row = str(text), row
        self.args = {a.name: (i, a.kind) for i, a in enumerate(row.args)}
        self.results = {n: i for i, n in enumerate(result_names(row)) if n not in self.args}
        try:
            body = ast.parse(self.text, mode="eval").body
        except SyntaxError:
            self.fail("is no expression")
        self.cpp = self.number(body)

    def fail(self, why):
        raise TableError(f"formula '{self.text}' {why}")

    def number(self, node):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return str(node.value)
        if isinstance(node, ast.BinOp):
            left, right, op = self.number(node.left), self.number(node.right), type(node.op)
            if op in OPERATORS:
                return f"({left} {OPERATORS[op]} {right})"
            if op is ast.FloorDiv:
                return f"cost::ratio({left}, {right})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"-{self.number(node.operand)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self.call(node.func.id, node.args)
        if isinstance(node, ast.Name):
            place, kind = self.args.get(node.id, (0, None))
            if kind == "Int":
                return f"a[{place}].integer()"
            if kind == "Bool":
                return f"int64_t(a[{place}].boolean())"
            self.fail(f"needs a number where '{node.id}' stands; numel({node.id}), perhaps?")
        self.fail(f"has a part that is not known here: '{ast.unparse(node)}'")

    def call(self, name, given):
        if name not in FUNCTIONS:
            self.fail(f"calls '{name}'; known are {', '.join(FUNCTIONS)}")
        takes = FUNCTIONS[name]
        if len(given) != len(takes):
            self.fail(f"gives {name} {len(given)} arguments; it takes {len(takes)}")
        parts = [
            self.number(node) if kind == "number" else self.value(name, node, kind)
            for node, kind in zip(given, takes, strict=True)
        ]
        space = "std::" if name in ("max", "min") else "cost::"
        if space == "std::":
            parts = [f"int64_t({p})" for p in parts]
        return f"{space}{name}({', '.join(parts)})"

    def value(self, function, node, wanted):
        """A tensor or list, by its name."""
        name = ast.unparse(node)
        if wanted == "tensor" and name in self.results:
            return f"r[{self.results[name]}]"
        place, kind = self.args.get(name, (0, None))
        if kind is None:
            known = ", ".join([*self.args, *self.results])
            self.fail(f"speaks of '{name}'; the row has {known}")
        if kind not in KINDS[wanted]:
            self.fail(f"gives {function} '{name}', which is no {wanted}")
        return f"a[{place}]"


def parse_profile(data, row):
    """{'flops': ..., 'bytes': ...} -> the same keys with formulas."""
    if not isinstance(data, dict):
        raise TableError("'profile' is a mapping with the keys flops and bytes")
    for key in data:
        if key not in ("flops", "bytes"):
            raise TableError(f"profile: unknown key '{key}'; known are flops, bytes")
    if row.kind == "view":
        raise TableError("profile: a view costs nothing")
    return {key: Formula(text, row) for key, text in data.items()}
