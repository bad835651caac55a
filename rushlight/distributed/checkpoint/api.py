"""The error that all ranks raise when some could not save or load."""

from __future__ import annotations

import traceback
from typing import Any

from rushlight._names.missing import fill

__all__ = ["CheckpointException"]

WRAPPED_EXCEPTION = tuple[BaseException, traceback.StackSummary]


def _wrap_exception(exc: BaseException) -> WRAPPED_EXCEPTION:
    """An error with the lines it came from, as another rank can read them."""
    summary = traceback.extract_tb(exc.__traceback__)
    for frame in summary:
        if hasattr(frame, "_code"):
            frame._code = None  # cannot be pickled (Python 3.13)
    return exc, summary


def _is_wrapped_exception(obj: Any) -> bool:
    return (
        isinstance(obj, tuple)
        and len(obj) == 2
        and isinstance(obj[0], BaseException)
        and isinstance(obj[1], traceback.StackSummary)
    )


class CheckpointException(BaseException):
    """Some ranks could not save or load; ``failures`` has their errors by rank. As in PyTorch, it
    is no Exception: `except Exception` lets it through."""

    def __init__(self, msg: str, failures: dict[int, WRAPPED_EXCEPTION]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WRAPPED_EXCEPTION]:
        """{rank: (the error, where it was raised)}."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{list(self._failures)}\n"]
        for rank, (error, trace) in self._failures.items():
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n")
            lines += traceback.format_list(trace or [])
            lines += traceback.format_exception_only(type(error), error)
        return "".join(lines)


fill(globals())
