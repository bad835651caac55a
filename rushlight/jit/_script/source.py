"""A Python function as the compiler sees it: syntax tree, file and line, names around it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing

from rushlight.jit._script.bodies import assigned_names
from rushlight.jit._script.errors import ScriptError, located


def mark(fn, word):
    """Notes what @export, @ignore and @unused say."""
    target = getattr(fn, "fget", None) or fn
    try:
        target._rushlight_jit = word
    except AttributeError:
        pass
    return fn


def is_ignored(obj):
    """'ignore', 'unused', 'export' or None."""
    return getattr(getattr(obj, "__func__", obj), "_rushlight_jit", None)


_overloads: dict[tuple[str, str], list] = {}  # (module, name) -> functions without a body


def note_overload(fn):
    """@jit._overload: one of the signatures of a function of this name, which comes last itself."""
    _overloads.setdefault((fn.__module__, fn.__qualname__), []).append(fn)
    return fn


def signatures_of(fn):
    """The annotations of the overloads of a function, in their order."""
    found = _overloads.get((fn.__module__, fn.__qualname__), [])
    return [form.__annotations__ for form in found if form is not fn]


def annotation_names():
    """What annotations may name without an import."""
    from rushlight import _C

    names = "Any Dict Final List NamedTuple Optional Tuple Union"
    return {"Tensor": _C.Tensor, **{name: getattr(typing, name) for name in names.split()}}


def _parsed(text):
    for type_comments in (True, False):  # a comment may only look like one
        try:
            return ast.parse(text, type_comments=type_comments).body[0]
        except SyntaxError:
            pass
    return None


def defaults_of(source):
    """{parameter: what it is when it is left out}."""
    known = getattr(source, "field_defaults", None)  # of a dataclass
    if known is not None:
        return known
    arguments = source.tree.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    found = dict(zip(names[::-1], (source.fn.__defaults__ or ())[::-1], strict=False))
    return {**found, **(source.fn.__kwdefaults__ or {})}


class Source:
    """One function."""

    def __init__(self, fn, owner=None, library=None):
        self.fn, self.owner = fn, owner
        module = getattr(fn, "__module__", "") or ""
        self.library = module.split(".")[0] == "rushlight" if library is None else library
        self.name = getattr(fn, "__qualname__", fn.__name__)
        code = fn.__code__
        try:
            lines, self.first_line = inspect.getsourcelines(fn)
        except (OSError, TypeError):
            raise ScriptError(
                f"script: the source of {self.name} cannot be found, and programs are made of it; "
                "write the function in a file"
            ) from None
        text = "".join(lines)
        self.indent = len(text) - len(text.lstrip(" \t"))
        self.file = code.co_filename
        tree = _parsed(textwrap.dedent(text))
        if not isinstance(tree, ast.FunctionDef):
            word = "a lambda" if fn.__name__ == "<lambda>" else f"{self.name}"
            raise ScriptError(
                f'script: {word} at "{self.file}", line {self.first_line}, is no function with '
                "a def; write it as one"
            )
        self.tree = tree
        self.scope = dict(vars(__import__("builtins")))
        self.scope.update(fn.__globals__)
        if owner is not None:
            self.scope.setdefault(owner.__name__, owner)
        for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
            try:
                self.scope[name] = cell.cell_contents
            except ValueError:
                pass  # not yet bound
        arguments = tree.args
        self.parameters = [
            a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]
        try:
            self.local_names = assigned_names(tree.body) - set(self.parameters)
        except RecursionError:
            raise located("its expressions are nested too deep", self, tree) from None
        self.hints = {**self._commented(), **getattr(fn, "__annotations__", {})}

    @staticmethod
    def alike(a, b):
        """Two values that meet in an operator; archives say dtypes by numbers."""
        return a, b

    def _commented(self):
        """What `# type: (Tensor, int) -> Tensor` below the def says, and such comments behind the
        parameters."""
        arguments, found = self.tree.args, {}
        for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if a.type_comment:
                found[a.arg] = a.type_comment
        if self.tree.type_comment:
            try:
                whole = ast.parse(self.tree.type_comment, mode="func_type")
            except SyntaxError:
                return found
            types = [ast.unparse(node) for node in whole.argtypes]
            names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
            if types != ["..."]:
                without_self = names[:1] == ["self"] and len(types) < len(names)
                names = names[1:] if without_self else names
                if len(types) != len(names):
                    raise located(
                        f"the type comment has {len(types)} types for {len(names)} parameters",
                        self,
                        self.tree,
                    )
                found.update(zip(names, types, strict=True))
            found["return"] = ast.unparse(whole.returns)
        return {name: self._evaluated(text) for name, text in found.items()}

    def _evaluated(self, text):
        try:
            return eval(text, {}, {**annotation_names(), **self.scope})  # the user's own source
        except Exception:
            return text  # refused where it is read, by its line
