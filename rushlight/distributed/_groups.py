"""ProcessGroup and Work: the core's objects, as users see them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight import _C, cuda
from rushlight._C import Tensor
from rushlight._C import device as Device
from rushlight.futures import Future

__all__ = ["ProcessGroup", "Work"]

# The core's numbers (csrc/distributed/operation.h).
(ALL_REDUCE, BROADCAST, ALL_GATHER, BARRIER, REDUCE, GATHER, SCATTER, REDUCE_SCATTER, ALL_TO_ALL,
 SEND, RECV) = range(11)  # fmt: skip


class Work:
    """A collective or message that may still be running."""

    def __init__(self, core_work: Any, ranks: list[int] | None = None) -> None:
        self._core = core_work
        self._ranks = ranks  # of the default group: those of the group

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is done, and raises what it raised. Without a timeout, or with one of 0,
        the group's own ends it. On a GPU the current stream waits, and the host goes on, unless a
        timeout is given."""
        seen = _C._profiler_begin_range("c10d::wait", 0)  # 0 where nobody records
        try:
            return self._core.wait(timeout)
        finally:
            _C._profiler_end_range(seen, False)

    def synchronize(self) -> None:
        """The same as wait()."""
        self.wait()

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
        """The tensors that receive the result."""
        return self._core.result()

    def source_rank(self) -> int:
        """Of a recv that is done: the rank that sent, counted in the default group."""
        rank = self._core.source_rank()
        return rank if self._ranks is None else self._ranks[rank]

    def get_future(self) -> Future:
        """A Future of the tensors. What stands in ``then`` runs on the thread that waits."""
        return _LazyFuture(self._finished_result, self.is_completed)

    def _finished_result(self):
        self.wait()
        return self.result()


class _LazyFuture(Future):
    """A Future that whoever waits for it completes, so that what follows a collective happens
    in the order of the waits, alike on all ranks. With a callback, a thread waits."""

    def __init__(self, produce: Callable[[], Any], is_ready: Callable[[], bool]) -> None:
        super().__init__()
        self._produce, self._is_ready = produce, is_ready
        self._once = threading.RLock()

    def _complete(self) -> None:
        with self._once:
            if self._event.is_set():
                return
            try:
                value = self._produce()
            except Exception as error:
                self.set_exception(error)  # type: ignore[arg-type]
            else:
                self.set_result(value)

    def done(self) -> bool:
        if not self._event.is_set() and self._is_ready():
            self._complete()
        return self._event.is_set()

    def wait(self) -> Any:
        self._complete()
        return super().wait()

    def then(self, callback: Callable[..., Any]) -> Future:
        def produce() -> Any:
            self._complete()
            return callback(self)

        return _LazyFuture(produce, self.done)

    def add_done_callback(self, callback: Callable[[Future], None]) -> None:
        super().add_done_callback(callback)
        from rushlight.distributed import _world  # which knows groups

        own = _world.own_world()

        def watch() -> None:
            _world.become(own)
            self._complete()

        if not self._event.is_set():
            threading.Thread(target=watch, daemon=True).start()


class ProcessGroup:
    """Processes that compute together. init_process_group and new_group make them."""

    def __init__(
        self, core_group: Any, engine: str = "mpi", backends: dict[str, str] | None = None,
        index: int | None = None,
    ) -> None:  # fmt: skip
        self._core = core_group
        self._engine = engine
        self._backends = {"cpu": "gloo"} if backends is None else backends
        self._index = index  # of the GPU, where the program has named it
        self.group_name: str = core_group.group_name

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._core.rank()

    def size(self) -> int:
        """The number of processes."""
        return self._core.size()

    def name(self) -> str:
        """The engine that carries the tensors."""
        return self._engine

    def _gpu(self) -> int:
        """The GPU on which barriers and objects travel; -1: they do on the host."""
        if "cpu" in self._backends:
            return -1
        return cuda.current_device() if self._index is None else self._index

    def _device(self) -> Device:
        """Where tensors that the library makes for itself must be."""
        index = self._gpu()
        return Device("cpu") if index < 0 else Device("cuda", index)

    @property
    def bound_device_id(self) -> Device | None:
        """The GPU that init_process_group was told, or None."""
        return None if self._index is None else Device("cuda", self._index)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self.rank()} of {self.size()}>"

    def _recorded(self):
        return self._core._recorded()
