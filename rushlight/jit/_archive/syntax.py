"""The code of an archive: parsed, checked and put into the words of scripts.

Only what TorchScript writes is let through: no imports, no names of Python but a few, no attributes
with two underscores outside of `torch.` and `ops.`. Nothing is run.
"""

from __future__ import annotations

import ast
from typing import Any

from rushlight.jit._archive.reader import Archive
from rushlight.jit._script.errors import Refusal, refuse

__all__ = ["Class", "Code", "Function"]

_NODES = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.Return, ast.Expr, ast.If,
    ast.For, ast.While, ast.Pass, ast.Raise, ast.Name, ast.Load, ast.Store, ast.Attribute, ast.Call,
    ast.keyword, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.UnaryOp,
    ast.USub, ast.Not, ast.BinOp, ast.operator, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop,
    ast.AnnAssign, ast.Break, ast.Continue, ast.With, ast.withitem, ast.IfExp, ast.UAdd, ast.Invert,
)  # fmt: skip
_BINARY = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "floordiv": ast.FloorDiv,
    "remainder": ast.Mod, "pow": ast.Pow, "__and__": ast.BitAnd, "__or__": ast.BitOr,
    "__xor__": ast.BitXor, "__lshift__": ast.LShift, "__rshift__": ast.RShift,
    "matmul": ast.MatMult,
}  # fmt: skip
_COMPARED = {
    "eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE,
    "__is__": ast.Is, "__isnot__": ast.IsNot,
}  # fmt: skip
_CASTS = ("annotate", "unchecked_cast", "uninitialized")
_INSIDES = ("__dict__", "__getattr__", "__module__", "__weakref__")


def _of_torch(node):
    """The name x of torch.x, or None."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.value.id == "torch" else None
    return None


class TypeName:
    """A type in the place of a value: of annotate(int, x) the first argument."""

    def __init__(self, node: ast.expr, scope: dict[str, Any]) -> None:
        self.node, self.scope = node, scope

    def __deepcopy__(self, memo: Any) -> TypeName:
        return self  # in copies of a tree

    @property
    def type(self) -> Any:
        """The type that the compiler knows."""
        from rushlight.jit._archive.types import wanted_type

        return wanted_type(self.node, self.scope["__torch__"]._program.code_of)


class _Rewrite(ast.NodeTransformer):
    """torch.add(a, b) -> a + b, which numbers and tensors both have, and the like."""

    def __init__(self, scope):
        self.scope = scope

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id in _CASTS and node.args:
            kind: Any = ast.Constant(TypeName(node.args[0], self.scope))
            rest = [self.visit(a) for a in node.args[1:]]
            node.args = [ast.copy_location(kind, node), *rest]
            return node
        self.generic_visit(node)
        name = _of_torch(node.func)
        if name is None or node.keywords:
            return node
        made: ast.expr | None = None
        if len(node.args) == 2:
            a, b = node.args
            if name in _BINARY:
                made = ast.BinOp(a, _BINARY[name](), b)
            elif name in _COMPARED:
                same = {"__is__": ast.Eq, "__isnot__": ast.NotEq}
                by_value = isinstance(b, ast.Constant) and isinstance(b.value, bool)
                how = same[name]() if by_value and name in same else _COMPARED[name]()
                made = ast.Compare(a, [how], [b])
            elif name == "__contains__":
                made = ast.Compare(b, [ast.In()], [a])
        elif len(node.args) == 1 and name in ("__not__", "neg"):
            made = ast.UnaryOp(ast.Not() if name == "__not__" else ast.USub(), node.args[0])
        return node if made is None else ast.copy_location(made, node)

    def visit_Expr(self, node):
        """An exception is a statement here."""
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "ops.prim.RaiseException":
            kind = "RuntimeError"
            if len(call.args) > 1 and isinstance(call.args[1], ast.Constant):
                kind = str(call.args[1].value).rpartition(".")[2]
            kind = kind if kind.isidentifier() else "RuntimeError"
            error = ast.Call(ast.Name(kind, ast.Load()), call.args[:1], [])
            return ast.copy_location(ast.Raise(ast.copy_location(error, node), None), node)
        return node

    def visit_AnnAssign(self, node):
        """The annotation is read by the compiler as a type, not evaluated. One of an int may be
        that of a dtype, which the value tells."""
        if node.value is not None and ast.unparse(node.annotation) in ("int", "Optional[int]"):
            plain = ast.Assign([node.target], self.visit(node.value))
            return ast.copy_location(plain, node)
        kind: Any = ast.Constant(TypeName(node.annotation, self.scope))
        node.annotation = ast.copy_location(kind, node)
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_If(self, node):
        self.generic_visit(node)
        node.body, node.orelse = _reached(node.body), _reached(node.orelse)
        return node


class _Objects(ast.NodeTransformer):
    """p = C.__new__(C), and later p.__init__(...): p = C(...)"""

    def __init__(self):
        self.made = {}

    def visit_Assign(self, node):
        call, target = node.value, node.targets[0]
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return node
        if call.func.attr == "__new__" and isinstance(target, ast.Name):
            self.made[target.id] = call.func.value
            return ast.copy_location(ast.Pass(), node)
        of = call.func.value
        if call.func.attr == "__init__" and isinstance(of, ast.Name) and of.id in self.made:
            new = ast.Call(self.made[of.id], call.args, call.keywords)
            node.targets, node.value = [ast.Name(of.id, ast.Store())], ast.copy_location(new, call)
        return node


def _reached(body):
    """What stands after an exception is for TorchScript's types only."""
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Raise):
            return body[: i + 1]
    return body


def _may_be_named(node):
    """Whether an attribute with two underscores is an operator (torch.__and__, ops.prim.__x__) or a
    class that PyTorch gave another name; not one of Python, that leads to its insides."""
    if hasattr(object, node.attr) or node.attr in _INSIDES:
        return False
    path = ast.unparse(node.value)
    if path == "torch" or path in ("ops.prim", "ops.aten"):
        return True
    return path.split(".")[0] == "__torch__" and node.attr.startswith("___torch_mangle_")


def _check(tree):
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            refuse(f"the code has {type(node).__name__}, which TorchScript does not write")
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            if not _may_be_named(node):
                refuse(f"the attribute '{node.attr}' is none that programs have")
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            refuse("the code has decorators, which TorchScript does not write")


class Function:
    """One function, as the compiler takes it (in place of a Source and its function)."""

    library, indent, owner = True, 0, None

    @staticmethod
    def alike(a, b):
        """A number beside a dtype is the dtype that it stands for."""
        from rushlight.jit._archive.language import setting
        from rushlight.jit._script import types as t

        if a.type == t.DTYPE:
            return a, setting("DType", b)
        return (setting("DType", a), b) if b.type == t.DTYPE else (a, b)

    def __init__(self, tree: ast.FunctionDef, file: str, scope: dict[str, Any]) -> None:
        from rushlight.jit._script.bodies import assigned_names

        self.fn = self  # the compiler keys functions by it
        self.name = self.__name__ = tree.name
        self.file, self.first_line, self.scope = file, 1, scope
        self.annotations = {a.arg: a.annotation for a in tree.args.args}
        self.returns = tree.returns
        self.hints: dict[str, Any] = {}
        self.__defaults__ = tuple(map(ast.literal_eval, tree.args.defaults))
        self.__kwdefaults__: dict[str, Any] = {}
        if tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs or tree.args.posonlyargs:
            refuse("the code has * parameters, which TorchScript does not write")
        for a in tree.args.args:
            a.annotation = None
        tree.args.defaults, tree.returns = [], None
        tree = _Objects().visit(tree)
        _check(tree)
        self.tree = ast.fix_missing_locations(_Rewrite(scope).visit(tree))
        self.tree.body = _reached(self.tree.body)
        self.parameters = [a.arg for a in tree.args.args]
        self.local_names = assigned_names(self.tree.body) - set(self.parameters)


class Class:
    """One class: its attributes' annotations, constants and methods."""

    def __init__(self, tree: ast.ClassDef, file: str, scope: dict[str, Any]) -> None:
        base = ast.unparse(tree.bases[0]) if tree.bases else ""
        self.name, self.base = tree.name, base
        self.__name__ = tree.name
        self.maker: Any = None  # see objects.py
        self.enum: Any = None
        self.under_way = False
        self.hints: dict[str, ast.expr] = {}
        self.constants: dict[str, Any] = {}
        self.names: dict[str, list[str]] = {"__parameters__": [], "__buffers__": []}
        self.methods: dict[str, Function] = {}
        self.assigned: set[str] = set()  # attributes that a method writes to
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self._method(node, file, scope)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self._attribute(node.target.id, node.annotation, node.value)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assigned(node.targets[0], node.value)
            elif not isinstance(node, ast.Pass):
                refuse(f"the class {tree.name} has {type(node).__name__}")

    def _method(self, node, file, scope):
        self.assigned |= {
            n.attr for n in ast.walk(node)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
        }  # fmt: skip
        try:
            self.methods[node.name] = Function(node, file, scope)
        except Exception as error:  # told of when it is called
            self.methods[node.name] = error

    def _attribute(self, name, annotation, value):
        self.hints[name] = annotation
        if value is not None:
            self.constants[name] = _literal(value)

    def _assigned(self, target, value):
        if isinstance(target, ast.Name) and target.id in self.names:
            found = _literal(value)
            self.names[target.id] = [*map(str, found)] if isinstance(found, list | tuple) else []
        elif isinstance(target, ast.Name) and self.base == "Enum":
            self.constants[target.id] = _literal(value)
        elif (
            isinstance(target, ast.Subscript)
            and isinstance(target.value, ast.Name)
            and target.value.id == "__annotations__"
        ):
            self.hints[str(_literal(target.slice))] = value


def _literal(node):
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


class Code:
    """All code of an archive, read when it is needed."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.files: dict[str, dict[str, Any]] = {}
        self.scope: dict[str, Any] = {}

    def find(self, qualified: str) -> Any:
        """The Class or Function of a name; None where there is none."""
        module, _, name = qualified.rpartition(".")
        if module not in self.files:
            self.files[module] = self._read(module)
        return self.files[module].get(name)

    def _read(self, module):
        text = self.archive.source(module)
        if text is None:
            return {}
        file = f"code/{module.replace('.', '/')}.py"
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise RuntimeError(f"jit.load: '{file}' cannot be parsed: {error}") from None
        found: dict[str, Any] = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                try:
                    found[node.name] = Class(node, file, self.scope)
                except Refusal as why:
                    raise RuntimeError(f"jit.load: '{file}' cannot be read: {why}") from None
            elif isinstance(node, ast.FunctionDef):
                try:
                    found[node.name] = Function(node, file, self.scope)
                except Exception as error:  # told of when it is called
                    found[node.name] = error
        return found
