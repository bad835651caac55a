"""What the text of a program shows, and its first steps do not: an evaluation that is not left."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rushlight.profiler._verdict import Finding

__all__ = ["findings_in_source"]

_PLACE = re.compile(r"^(.*)\((\d+)\)")  # file(line): function


def _method_calls(nodes: list[ast.AST], name: str) -> list[ast.Call]:
    return [
        n for node in nodes for n in ast.walk(node)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == name
    ]  # fmt: skip


def _called_names(node: ast.AST) -> set[str]:
    """Functions and methods that are called in it, by their last names."""
    found = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Call):
            name = getattr(n.func, "attr", getattr(n.func, "id", None))
            if isinstance(name, str):
                found.add(name)
    return found


def _reached(tree: ast.AST, loop: ast.AST) -> list[ast.AST]:
    """The loop, and the functions of this file that are called from it, directly or not."""
    functions: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, []).append(node)
    found: list[ast.AST] = [loop]
    names, seen = _called_names(loop), set[str]()
    while names - seen:
        name = (names - seen).pop()
        seen.add(name)
        for function in functions.get(name, []):
            found.append(function)
            names |= _called_names(function)
    return found


def _loops_around(tree: ast.AST, line: int) -> list[ast.AST]:
    """Loops whose body reaches a line, directly or by calls; the innermost first."""
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While)]
    around = [
        loop for loop in loops
        if any(n.lineno <= line <= (n.end_lineno or n.lineno)  # type: ignore[attr-defined]
               for n in _reached(tree, loop))
    ]  # fmt: skip
    return sorted(around, key=lambda n: (n.end_lineno or 0) - n.lineno)  # type: ignore[attr-defined]


def findings_in_source(step_line: str | None) -> Iterator[Finding]:
    """Of the file that the step of the optimiser stands in."""
    place = _PLACE.match(step_line or "")
    if place is None:
        return
    try:
        with open(place[1], encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return
    for loop in _loops_around(tree, int(place[2])):
        inside = _reached(tree, loop)
        # That of a module takes nothing; expressions and tables have an eval() as well.
        left = [c for c in _method_calls(inside, "eval") if not c.args and not c.keywords]
        if left and not _method_calls(inside, "train"):
            first = min(left, key=lambda call: call.lineno)
            yield Finding(
                "Training goes on in evaluation mode after an evaluation",
                "the loop calls eval() and never train()",
                "model.train() where the evaluation ends: without it dropout is off and batch "
                "norms stop learning from then on",
                f"{place[1]}({first.lineno}): eval",
            )
            return
