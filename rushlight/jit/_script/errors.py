"""Errors of the compiler: what is wrong, where, and what to write instead."""

from __future__ import annotations

import linecache


class ScriptError(RuntimeError):
    """A function or module that script cannot compile."""


class Refusal(Exception):
    """The reason, on its way to the nearest place that knows the line."""


class Elsewhere(Exception):
    """A function that returns from inside of a branch cannot be written into its caller."""


def refuse(reason, instead=None):
    raise Refusal(f"{reason}; {instead}" if instead else reason)


def located(reason, source, node):
    """The error for a reason at a node."""
    line = source.first_line + getattr(node, "lineno", 1) - 1
    column = getattr(node, "col_offset", 0) + source.indent + 1
    text = linecache.getline(source.file, line).rstrip("\n")
    shown = (
        f"\n    {text.strip()}\n    {' ' * (column - 1 - (len(text) - len(text.lstrip())))}^"
        if text
        else ""
    )
    return ScriptError(
        f'script: {reason}\n  File "{source.file}", line {line}, column {column}, in '
        f"{source.name}{shown}"
    )


def called_from(error, source, node):
    """The same error, with one more line of where its function was called."""
    line = source.first_line + getattr(node, "lineno", 1) - 1
    return ScriptError(f'{error}\n  called from "{source.file}", line {line}, in {source.name}')
