"""What the text of a program shows, and its first steps do not: an evaluation that is not left."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rushlight.profiler._verdict import Finding

__all__ = [
    "findings_in_source",
    "findings_of_dropout",
    "findings_of_evaluation",
    "is_in_an_epoch",
]

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


def _parsed(step_line: str | None) -> tuple[ast.AST, str, int] | None:
    """The program that a line stands in, its file and the line's number."""
    place = _PLACE.match(step_line or "")
    if place is None:
        return None
    try:
        with open(place[1], encoding="utf-8") as file:
            return ast.parse(file.read()), place[1], int(place[2])
    except (OSError, SyntaxError, ValueError):
        return None


def is_in_an_epoch(step_line: str | None) -> bool:
    """Whether a line runs in a loop inside of another one, and the inner one is not left early: as
    batches of an epoch."""
    parsed = _parsed(step_line)
    loops = [] if parsed is None else _loops_around(parsed[0], parsed[2])
    return len(loops) > 1 and not any(isinstance(n, ast.Break) for n in ast.walk(loops[0]))


def _has_no_gradients(node: ast.AST) -> bool:
    """Whether it is a block, or a function, under no_grad or inference_mode."""
    if isinstance(node, ast.With):
        around: list[ast.expr] = [item.context_expr for item in node.items]
    elif isinstance(node, ast.FunctionDef):
        around = node.decorator_list
    else:
        return False
    text = " ".join(map(ast.unparse, around))
    return "no_grad" in text or "inference_mode" in text


def _counts_hits(node: ast.AST) -> bool:
    """Whether predictions are compared with labels in it."""
    calls = _called_names(node)
    equal = "eq" in calls or any(isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq)
                                 for n in ast.walk(node))  # fmt: skip
    return equal and bool(calls & {"argmax", "topk"})


def findings_of_evaluation(step_line: str | None) -> Iterator[Finding]:
    """Of a program that counts right answers and never calls eval(), whose model has layers that
    behave otherwise in training."""
    parsed = _parsed(step_line)
    if parsed is None:
        return
    tree, file, _ = parsed
    trains = _method_calls([tree], "train")
    if _method_calls([tree], "eval") or any(c.args or c.keywords for c in trains):
        return
    for node in ast.walk(tree):
        if _has_no_gradients(node) and _counts_hits(node):
            yield Finding(
                "The model is evaluated in training mode",
                "predictions are compared with labels, and nothing calls eval()",
                "model.eval() before, and model.train() after: dropout stays on, and batch norms "
                "learn from what they are tested with",
                f"{file}({node.lineno}): no_grad",  # type: ignore[attr-defined]
            )
            return


def findings_of_dropout(step_line: str | None) -> Iterator[Finding]:
    """Of a program that evaluates, and has a dropout that does not ask for the mode."""
    parsed = _parsed(step_line)
    if parsed is None or not _method_calls([parsed[0]], "eval"):
        return
    tree, file, _ = parsed
    forwards = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward"]
    for call in _method_calls([*forwards], "dropout"):
        owner = ast.unparse(call.func.value)  # type: ignore[attr-defined]
        told = len(call.args) > 2 or any(k.arg in ("training", None) for k in call.keywords)
        if owner.rpartition(".")[2] in ("F", "functional") and not told:
            yield Finding(
                "A dropout does not ask for the mode",
                f"{owner}.dropout without training= drops in evaluation, too",
                "training=self.training, or nn.Dropout",
                f"{file}({call.lineno}): forward",
            )
            return


def findings_in_source(step_line: str | None) -> Iterator[Finding]:
    """Of the file that the step of the optimiser stands in."""
    parsed = _parsed(step_line)
    if parsed is None:
        return
    tree, file, line = parsed
    for loop in _loops_around(tree, line):
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
                f"{file}({first.lineno}): eval",
            )
            return
