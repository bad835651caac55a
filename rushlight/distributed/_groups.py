"""ProcessGroup and Work: the core's objects, as users see them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rushlight._C import Tensor

__all__ = ["ProcessGroup", "Work"]


class Work:
    """A collective that may still be running."""

    def __init__(self, core_work: Any) -> None:
        self._core = core_work

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is done, and raises what it raised. Without a timeout, or with one of 0,
        the group's own ends it."""
        return self._core.wait(timeout)

    def is_completed(self) -> bool:
        """Whether it is done, well or not."""
        return self._core.is_completed()

    def is_success(self) -> bool:
        """Whether it is done, and went well."""
        return self._core.is_success()

    def exception(self) -> BaseException | None:
        """What it raised, or None."""
        from rushlight.distributed._errors import DistBackendError

        text = self._core._failure()
        return None if text is None else DistBackendError(text)

    def result(self) -> list[Tensor]:
        """The tensor that was given."""
        return self._core.result()


class ProcessGroup:
    """Processes that compute together. init_process_group and new_group make them."""

    def __init__(self, core_group: Any) -> None:
        self._core = core_group
        self.group_name: str = core_group.group_name

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._core.rank()

    def size(self) -> int:
        """The number of processes."""
        return self._core.size()

    def name(self) -> str:
        """The engine that carries the tensors."""
        return "mpi"

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self.rank()} of {self.size()}>"

    def _collective(self, kind, tensor, reduce, root, outputs, timeout, async_op):
        core_work = self._core._collective(kind, tensor, reduce, root, outputs, timeout, async_op)
        return Work(core_work) if async_op else None

    def _recorded(self):
        return self._core._recorded()
