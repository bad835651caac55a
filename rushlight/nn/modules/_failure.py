"""Which module an error came from: the path is written into the exception, once.

Nothing here runs while all goes well. When an exception leaves a module's call, the module is noted
in the exception, and the outermost of the calls under way writes the path.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from rushlight import _C

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

_MARK = "_rushlight_module_path"
_TRAIL = "_rushlight_modules"


class _Trail(list["Module"]):
    """The modules whose calls an error has left, the innermost first."""

    raised_by_call = False  # by the call itself, of arguments that forward() does not take


def add_module_path(error: BaseException, module: Module, is_outermost: bool) -> None:
    """Tells `error`, which leaves the call of `module`, the path to the module that failed."""
    if getattr(error, _MARK, None) is not None:
        return
    trail = getattr(error, _TRAIL, None)
    if trail is None:
        trail = _Trail()
        trail.raised_by_call = error.__traceback__ is None  # no frame was entered
    trail.append(module)
    modules = trail[::-1]
    path = path_between(modules) if is_outermost else None
    try:
        setattr(error, _TRAIL, None if is_outermost else trail)
        setattr(error, _MARK, path)
    except (AttributeError, TypeError):
        return  # no place to say it
    if path is None:
        return
    root, last = type(modules[0]).__name__, type(modules[-1]).__name__
    text = f"in module {path} ({last}) of {root}" if path else f"in module {root} itself"
    _write(error, text, theirs=trail.raised_by_call)


def path_between(modules):
    """The dotted path from the first of `modules` to the last, each called by the one before."""
    parts = []
    for parent, child in itertools.pairwise(modules):
        if parent is child:
            continue
        parts.append(
            next((name for name, m in parent.named_modules() if m is child and name), None)
            or f"<{type(child).__name__}, not a submodule of {type(parent).__name__}>"
        )
    return ".".join(parts)


def _is_ours(error):
    """Whether an op or the package's own Python raised it, and not the user's program."""
    if hasattr(error, "_rushlight_op"):  # set by the bindings
        return True
    if any(c.__module__ == "rushlight" for c in type(error).__mro__):
        return True
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    return _C._is_package_file(step.tb_frame.f_code.co_filename)


def _write(error, text, theirs):
    args = error.args
    ours = not theirs and _is_ours(error)
    if args and isinstance(args[0], str) and (ours or not hasattr(error, "add_note")):
        # KeyError shows the repr of its text; a second line would not read well there.
        if not isinstance(error, KeyError):
            error.args = (f"{args[0]}\n  {text}", *args[1:])
    elif hasattr(error, "add_note"):
        error.add_note(text)
