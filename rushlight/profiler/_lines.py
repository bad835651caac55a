"""The user's line: the innermost call that is not in this package."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["is_users", "user_line"]

_PACKAGE = str(Path(__file__).resolve().parents[1])


def is_users(file: str) -> bool:
    """Whether a file is the program's own: neither this package nor Python's library."""
    return not file.startswith((_PACKAGE, "<frozen", sys.base_prefix + "/lib/python"))


def user_line() -> str | None:
    """The line of the program that is running, as file(line): function."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            return f"{code.co_filename}({frame.f_lineno}): {code.co_name}"
        frame = frame.f_back
    return None
