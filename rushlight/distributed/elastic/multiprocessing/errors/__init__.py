"""How a rank failed, told to the launcher and by it."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rushlight._names.missing import names_missing_from

__all__ = ["ChildFailedError", "ProcessFailure", "record"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass
class ProcessFailure:
    """A process that failed: by an exit code, or by a signal (minus its number)."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str = "<N/A>"
    message: str = ""
    timestamp: int = field(default_factory=lambda: int(time.time()))

    def signal_name(self) -> str:
        """The signal that ended it, or <N/A>."""
        if self.exitcode >= 0:
            return "<N/A>"
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return f"<signal {-self.exitcode}>"


class ChildFailedError(Exception):
    """Ranks failed; ``failures`` says which, by their numbers."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("ChildFailedError: at least one rank must have failed")
        self.name = name
        self.failures = failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        return min(self.failures.items(), key=lambda item: item[1].timestamp)

    def format_msg(self) -> str:
        """Who failed first, how, and what it said."""
        rank, failure = self.get_first_failure()
        how = f"exit code {failure.exitcode}"
        if failure.exitcode < 0:
            how = f"signal {failure.signal_name()}"
        text = f"{self.name}: rank {rank} (process {failure.pid}) failed first, by {how}"
        return f"{text}\n{failure.message}" if failure.message else text


def record(fn: _Function, error_handler: Any = None) -> _Function:
    """The function, whose exception is also written into the file that TORCHELASTIC_ERROR_FILE
    names, where a scheduler set it. Our launcher shows a rank's traceback without that."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            path = os.environ.get("TORCHELASTIC_ERROR_FILE")
            if path:
                more = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
                text = f"{type(error).__name__}: {error}"
                with open(path, "w") as file:
                    json.dump({"message": {"message": text, "extraInfo": more}}, file)
            raise

    return wrapped  # type: ignore[return-value]


__getattr__ = names_missing_from(__name__)
