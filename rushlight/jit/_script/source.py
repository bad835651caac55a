"""A Python function as the compiler sees it: syntax tree, file and line, names around it."""

from __future__ import annotations

import ast
import inspect
import textwrap

from rushlight.jit._script.bodies import assigned_names
from rushlight.jit._script.errors import ScriptError


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
        try:
            tree = ast.parse(textwrap.dedent(text)).body[0]
        except SyntaxError:
            tree = None
        if not isinstance(tree, ast.FunctionDef):
            word = "a lambda" if fn.__name__ == "<lambda>" else f"{self.name}"
            raise ScriptError(
                f'script: {word} at "{self.file}", line {self.first_line}, is no function with '
                "a def; write it as one"
            )
        self.tree = tree
        self.scope = dict(vars(__import__("builtins")))
        self.scope.update(fn.__globals__)
        for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
            try:
                self.scope[name] = cell.cell_contents
            except ValueError:
                pass  # not yet bound
        arguments = tree.args
        self.parameters = [
            a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]
        self.local_names = assigned_names(tree.body) - set(self.parameters)
