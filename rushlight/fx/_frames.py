"""The lines and instructions of the program that is traced."""

from __future__ import annotations

import dis
import functools
import linecache
import sys
import traceback
from types import CodeType, FrameType

from rushlight import _C


def _is_internal(frame: FrameType) -> bool:
    """Whether a frame belongs to the library, and not to the program that is traced."""
    return _C._is_package_file(frame.f_code.co_filename)


def calling_frame() -> FrameType | None:
    """The innermost frame of the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("rushlight.fx."):
        frame = frame.f_back
    return frame


def _user_frame() -> FrameType | None:
    frame = calling_frame()
    while frame is not None and _is_internal(frame):
        frame = frame.f_back
    return frame


def user_stack() -> list[traceback.FrameSummary]:
    """The program's lines, the outermost first, without those that started the tracing."""
    found = []
    frame = _user_frame()
    while frame is not None and frame.f_code.co_name != "_trace_root":
        if not _is_internal(frame):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return list(traceback.StackSummary.extract(reversed(found)))


def at_line() -> str:
    """Which line of the program it was, as the end of an error's text."""
    frame = _user_frame()
    if frame is None:
        return ""
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    return f"\n  {code.co_filename}:{line} in {code.co_name}: {text}".rstrip(": ")


@functools.lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[dict[int, int], list[dis.Instruction]]:
    found = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    return {instruction.offset: at for at, instruction in enumerate(found)}, found


def _instruction(frame: FrameType) -> tuple[int, list[dis.Instruction]] | None:
    places, found = _instructions(frame.f_code)
    at = places.get(frame.f_lasti)
    return None if at is None else (at, found)


def unpacked_count(frame: FrameType) -> int | None:
    """How many names `a, b = proxy` has, if that is what the frame does."""
    here = _instruction(frame)
    if here is None or here[1][here[0]].opname != "UNPACK_SEQUENCE":
        return None
    return here[1][here[0]].arg


def is_assert(frame: FrameType) -> bool:
    """Whether the frame asks for a truth value in order to assert it."""
    here = _instruction(frame)
    if here is None:
        return False
    at, found = here
    after = [i for i in found[at : at + 5] if i.opname not in _BETWEEN]
    names = [i.opname for i in after]
    jump = next((i for i, name in enumerate(names) if "POP_JUMP" in name and "TRUE" in name), None)
    return jump is not None and any(_is_assertion_error(i) for i in after[jump : jump + 2])


_BETWEEN = ("TO_BOOL", "COMPARE_OP", "NOP", "COPY", "NOT_TAKEN")


def _is_assertion_error(instruction: dis.Instruction) -> bool:
    if instruction.opname == "LOAD_COMMON_CONSTANT":  # since Python 3.14
        return instruction.argrepr == "AssertionError"
    return instruction.opname == "LOAD_ASSERTION_ERROR"
