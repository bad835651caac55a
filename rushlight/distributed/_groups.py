"""ProcessGroup and Work: the core's objects, as users see them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight import _C, cuda
from rushlight._C import Tensor
from rushlight._C import device as Device
from rushlight.distributed._group_methods import GroupMethods
from rushlight.futures import Future

__all__ = ["ProcessGroup", "Work"]

# The core's numbers (csrc/distributed/operation.h).
(ALL_REDUCE, BROADCAST, ALL_GATHER, BARRIER, REDUCE, GATHER, SCATTER, REDUCE_SCATTER, ALL_TO_ALL,
 SEND, RECV) = range(11)  # fmt: skip


class _NoCore:
    """In the place of the core's Work, where a user's class has to say it."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(
            f"Work: a subclass defines `{name.lstrip('_')}` by itself, and this one does not"
        )


class Work:
    """A collective or message that may still be running.

    Process groups that users write return instances of subclasses, which define at least ``wait``.

    Arguments:
        core_work: the core's object; None for subclasses of users.
        ranks: the ranks of the group, counted in the default group; None where they are the same.

    Example:
        >>> from rushlight import distributed as dist
        >>> def add(rank):
        ...     x = rl.tensor([rank + 1.0])
        ...     work = dist.all_reduce(x, async_op=True)
        ...     return isinstance(work, dist.Work), work.wait(), work.result()
        >>> dist.simulate(2, add)[0]
        (True, True, [tensor([3.])])
        >>> class Done(dist.Work):
        ...     def wait(self, timeout=None):
        ...         return True
        >>> Done().wait()
        True
    """

    def __init__(self, core_work: Any = None, ranks: list[int] | None = None) -> None:
        self._core = _NoCore() if core_work is None else core_work
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

    def _source_rank(self) -> int:
        """Of a user's recv_anysource: the rank in the group that sent."""
        raise NotImplementedError(
            "recv: a Work that `recv_anysource` returns defines `_source_rank`, the rank that sent"
        )

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


class ProcessGroup(GroupMethods):
    """Processes that compute together. init_process_group and new_group make them.

    A class of a user's derives from it, is made as ``ProcessGroup(rank, size)``, and has methods
    for the collectives: ``Backend.register_backend`` (docs/distributed.md).

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.simulate(3, lambda rank: (dist.group.WORLD.rank(), dist.group.WORLD.size()))
        [(0, 3), (1, 3), (2, 3)]
        >>> mine = dist.ProcessGroup(1, 4)
        >>> mine.rank(), mine.size()
        (1, 4)
    """

    _core: Any = None  # none yet: a user's group that nobody has taken up
    _users: dict[str, ProcessGroup]  # groups that carry tensors in the core's stead, by device

    def __init__(self, *place: Any) -> None:
        numbers = place[-2:]
        if not (2 <= len(place) <= 3 and all(isinstance(n, int) for n in numbers)):
            raise TypeError(
                "ProcessGroup: expects (rank, size) or (store, rank, size); groups of the "
                "backends that are there are made by distributed.new_group"
            )
        self._place: tuple[int, int] = (numbers[0], numbers[1])
        if not 0 <= numbers[0] < numbers[1]:
            raise ValueError(f"ProcessGroup: rank {numbers[0]} is none of {numbers[1]} ranks")

    def _begin(
        self, core_group: Any, engine: str, backends: dict[str, str], index: int | None,
        users: dict[str, ProcessGroup],
    ) -> None:  # fmt: skip
        """Takes the group up: from now on it is one of this process's."""
        self._core = core_group
        self._engine = engine
        self._backends = backends
        self._index = index  # of the GPU, where the program has named it
        self._timeout: Any = None  # of collectives
        self._users = users
        self._set_group_name(core_group.group_name)

    def _set_group_name(self, name: str) -> None:
        self.group_name: str = name

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._place[0]

    def size(self) -> int:
        """The number of processes."""
        return self._place[1]

    def name(self) -> str:
        """The backend; where devices have different ones, the engines that carry tensors."""
        own = getattr(self, "getBackendName", None)
        if own is not None:
            return own()
        names = set(self._backends.values())
        return names.pop() if len(names) == 1 else self._engine

    def _user_for(self, tensors: list[Any] | None) -> ProcessGroup | None:
        """The user's group that carries these tensors, or None where the core does. Without
        tensors the core does, if it serves any device."""
        if not self._users:
            return None
        for tensor in tensors or []:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{self!r}: expected a tensor, got {type(tensor).__name__}")
            kind = tensor.device.type
            if kind in self._backends or len(self._users) < len(self._backends):
                return self._users.get(kind)
            raise RuntimeError(f"{self!r}: the backends {self._backends} serve no {kind} tensors")
        served = len(self._users) == len(self._backends)
        return next(iter(self._users.values())) if served else None

    def _gpu(self) -> int:
        """The GPU on which barriers and objects travel; -1: they do on the host."""
        if "cpu" in self._backends:
            return -1
        return cuda.current_device() if self._index is None else self._index

    def _device(self) -> Device:
        """Where tensors that the library makes for itself must be."""
        index = self._gpu()
        return Device("cpu") if index < 0 else Device("cuda", index)

    def _shut_down(self) -> None:
        """Leaves the group; users' groups are told so, if they have a method for it."""
        try:
            for user in dict.fromkeys(self._users.values()):
                if hasattr(user, "shutdown"):
                    user.shutdown()
        finally:
            self._core._shut_down()

    @property
    def bound_device_id(self) -> Device | None:
        """The GPU that init_process_group was told, or None."""
        return None if self._index is None else Device("cuda", self._index)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self.rank()} of {self.size()}>"

    def _recorded(self):
        return self._core._recorded()
