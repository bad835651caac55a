"""What can be said of statements before they are compiled."""

from __future__ import annotations

import ast


def assigned_names(nodes):
    """The variables that statements may give a value."""
    found = set()

    class Finder(ast.NodeVisitor):
        def visit_Name(self, node):
            if isinstance(node.ctx, ast.Store | ast.Del):
                found.add(node.id)

        def visit_ListComp(self, node):
            pass  # its variables are its own

        visit_GeneratorExp = visit_DictComp = visit_SetComp = visit_Lambda = visit_ListComp

    for node in nodes:
        Finder().visit(node)
    return found


def is_only_read(name, body):
    """Whether statements take items and the length of a variable, or loop over it, and nothing
    more."""
    fine = set()

    class Finder(ast.NodeVisitor):
        def visit_Subscript(self, node):
            if isinstance(node.ctx, ast.Load):
                fine.add(id(node.value))
            self.generic_visit(node)

        def visit_Call(self, node):
            if isinstance(node.func, ast.Name) and node.func.id in ("len", "enumerate", "zip"):
                fine.update(map(id, node.args))
            self.generic_visit(node)

        def visit_For(self, node):
            fine.add(id(node.iter))
            self.generic_visit(node)

    for part in body:
        Finder().visit(part)
    uses = (n for part in body for n in ast.walk(part) if isinstance(n, ast.Name) and n.id == name)
    return all(id(use) in fine for use in uses)


_MOST_COPIES = 256  # of what follows an `if`, within one loop


def without_continue(body):
    """The statements with what follows an `if` that may continue moved into its branches; as they
    are, where that would make too many copies of them."""
    copies = 0

    def moved(body):
        nonlocal copies
        made = []
        for i, part in enumerate(body):
            if isinstance(part, ast.Continue):
                return made
            if isinstance(part, ast.If) and any(
                isinstance(n, ast.Continue) for n in ast.walk(part)
            ):
                copies += 1
                if copies > _MOST_COPIES:
                    return made
                rest = body[i + 1 :]
                then = moved([*part.body, *rest]) or [ast.copy_location(ast.Pass(), part)]
                other = moved([*part.orelse, *rest])
                return [*made, ast.copy_location(ast.If(part.test, then, other), part)]
            made.append(part)
        return made

    found = moved(body)
    return body if copies > _MOST_COPIES else found
