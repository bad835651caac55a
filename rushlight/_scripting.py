"""jit.is_scripting, for modules that are imported before jit is."""

from __future__ import annotations


def is_scripting() -> bool:
    """Whether the code runs as a program: no, as this is Python; script compiles it as True.

    Example:
        >>> rl.jit.is_scripting()
        False
    """
    return False
