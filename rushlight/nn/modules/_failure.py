"""Which module an error came from: the path is written into the exception, once.

Nothing here runs while all goes well. When an exception leaves a module's call, the outermost of
the calls under way reads the frames of the traceback: each call's frame holds its module.
"""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from rushlight import _C

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

_MARK = "_rushlight_module_path"


def add_module_path(error: BaseException, module: Module, call_code: Any) -> None:
    """Tells `error`, which leaves the call of `module`, the path to the module that failed.

    call_code: the code object of Module.__call__, by which its frames are known.
    """
    frame: FrameType | None = sys._getframe(2)  # who called the Module.__call__ that called us
    while frame is not None:
        if frame.f_code is call_code:
            return  # another module's call is under way further out; it will do this
        frame = frame.f_back
    if getattr(error, _MARK, None) is not None:
        return
    # The frame of the outermost call holds the error: reading its f_locals would make a cycle.
    modules = [module]
    outermost = sys._getframe(1)
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code is call_code and step.tb_frame is not outermost:
            modules.append(step.tb_frame.f_locals.get("self"))  # type: ignore[arg-type]
        step = step.tb_next
    path = path_between(modules)
    try:
        setattr(error, _MARK, path)
    except (AttributeError, TypeError):
        return  # no place to say it
    root, last = type(modules[0]).__name__, type(modules[-1]).__name__
    text = f"in module {path} ({last}) of {root}" if path else f"in module {root} itself"
    _write(error, text)


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
    code = step.tb_frame.f_code
    return code.co_name != "__call__" and _C._is_package_file(code.co_filename)


def _write(error, text):
    args = error.args
    ours = _is_ours(error)
    if args and isinstance(args[0], str) and (ours or not hasattr(error, "add_note")):
        # KeyError shows the repr of its text; a second line would not read well there.
        if not isinstance(error, KeyError):
            error.args = (f"{args[0]}\n  {text}", *args[1:])
    elif hasattr(error, "add_note"):
        error.add_note(text)
