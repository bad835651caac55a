"""The process groups that this process belongs to."""

from __future__ import annotations

import atexit
import sys
import threading
from dataclasses import dataclass
from typing import Any

from rushlight.distributed import _errors
from rushlight.distributed._groups import ProcessGroup


@dataclass
class Member:
    """A group, as this process knows it."""

    group: ProcessGroup
    ranks: list[int]  # of the default group, in the order of the group's own
    backend: str


class World:
    """Everything that init_process_group makes, and destroy_process_group takes away."""

    def __init__(self) -> None:
        self.default: Any = None
        self.store: Any = None
        self.members: dict[str, Member] = {}
        self.times = 0  # that init_process_group was called
        self.count = 0  # of groups ever made, on all ranks alike: their names
        self.hub: Any = None  # of ranks that are threads: where they meet
        self.local_counts: dict[tuple[int, ...], int] = {}  # of groups that only members make
        self.rpc: Any = None  # the worker that init_rpc made
        self.rpc_times = 0  # that it was called
        self.rpc_stores: dict[Any, Any] = {}  # where it met others, by how they were to meet
        self.origins: list[int] | None = None  # what MPI calls the default group's ranks
        self.roll_calls: dict[str, int] = {}  # of lost groups, by the ranks asked
        self._hook: Any = None

    def origin_of(self, rank: int) -> int:
        """What MPI calls a rank of the default group: another number once ranks were lost."""
        return rank if self.origins is None else self.origins[rank]

    def add(self, group: Any, ranks: list[int], backend: str) -> None:
        self.members[group.group_name] = Member(group, ranks, backend)

    def member(self, group: Any, what: str) -> Member:
        """The entry of a group (None: the default one)."""
        if self.default is None:
            raise _errors.DistNotInitializedError(
                f"distributed.{what}: Default process group has not been initialized, please call "
                "init_process_group; a program that may run alone asks "
                "distributed.is_initialized() first"
            )
        group = self.default if group is None else group
        found = self.members.get(getattr(group, "group_name", ""))
        if found is None:
            raise ValueError(f"distributed.{what}: not a process group of this process: {group!r}")
        return found

    def watch_errors(self) -> None:
        """From now on, an error that ends this process is told to the other ranks."""
        if self._hook is not None:
            return
        before = sys.excepthook

        def hook(kind: Any, error: Any, trace: Any) -> None:
            self.say_raised(error)
            before(kind, error, trace)

        self._hook = hook
        sys.excepthook = hook
        atexit.register(self.shut_down)

    def say_raised(self, error: BaseException) -> None:
        """Tells the other ranks why this one will not come any more."""
        text = f"{type(error).__name__}: {error}".split("\n")[0]
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None:
            text += f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        for member in self.members.values():
            member.group._core._say_raised(text)

    def shut_down(self) -> None:
        """Leaves all groups; the youngest first."""
        if self.rpc is not None:
            self.rpc.stop()
            self.rpc = None
        self.leave_groups()
        self.default = self.store = self.origins = None

    def leave_groups(self) -> None:
        """Leaves all groups, and keeps the store."""
        for member in reversed(list(self.members.values())):
            member.group._shut_down()
        self.members.clear()
        self.count = 0
        self.local_counts.clear()


class _Rank(threading.local):
    """What a thread that is a rank of its own knows (simulate)."""

    world: World | None = None


_rank = _Rank()
_of_the_process = World()


class _Current:
    """The groups of this thread's rank: those of the process, unless the thread is a rank."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_rank.world or _of_the_process, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_rank.world or _of_the_process, name, value)


world: Any = _Current()


def own_world() -> World | None:
    """The world of a thread that is a rank, or None."""
    return _rank.world


def become(own: World | None) -> None:
    """Lets this thread be the rank whose world this is."""
    _rank.world = own
