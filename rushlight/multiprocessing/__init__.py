"""The standard module ``multiprocessing``, with tensors that travel through shared memory.

A tensor that is sent moves to shared memory and stays one tensor: every process sees what another
writes. docs/multiprocessing.md is the guide.
"""

from __future__ import annotations

import atexit
import multiprocessing
from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight.multiprocessing import _contexts
from rushlight.multiprocessing._contexts import get_context
from rushlight.multiprocessing.reductions import init_reductions
from rushlight.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

if TYPE_CHECKING:  # without the names that are our own below
    from multiprocessing import (  # noqa: F401
        Array,
        AuthenticationError,
        Barrier,
        BoundedSemaphore,
        BufferTooShort,
        Condition,
        Event,
        Lock,
        Manager,
        Process,
        ProcessError,
        RawArray,
        RawValue,
        RLock,
        Semaphore,
        TimeoutError,
        Value,
        active_children,
        allow_connection_pickling,
        cpu_count,
        current_process,
        freeze_support,
        get_all_start_methods,
        get_logger,
        get_start_method,
        log_to_stderr,
        parent_process,
        pool,
        reducer,
        set_executable,
        set_forkserver_preload,
        set_start_method,
    )
    from multiprocessing.connection import Connection
    from typing import Any

    from rushlight.multiprocessing import _channels
else:
    for _name in set(multiprocessing.__all__) - {"get_context"}:
        globals()[_name] = getattr(multiprocessing, _name)

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

init_reductions()
# Files of arenas, where there are any, go with the last process that uses them.
atexit.register(_C._release_shared_memory)


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    return get_context().Pipe(duplex)


def Queue(maxsize: int = 0) -> _channels.Queue:
    return get_context().Queue(maxsize)


def JoinableQueue(maxsize: int = 0) -> _channels.JoinableQueue:
    return get_context().JoinableQueue(maxsize)


def SimpleQueue() -> _channels.SimpleQueue:
    return get_context().SimpleQueue()


def Pool(
    processes: int | None = None,
    initializer: Callable[..., object] | None = None,
    initargs: tuple[Any, ...] = (),
    maxtasksperchild: int | None = None,
) -> pool.Pool:
    return get_context().Pool(processes, initializer, initargs, maxtasksperchild)


for _function in (Pipe, Queue, JoinableQueue, SimpleQueue, Pool):
    _function.__doc__ = getattr(_contexts.SharingContext, _function.__name__).__doc__


_STRATEGIES = ("file_descriptor", "file_system")


def get_all_sharing_strategies() -> set[str]:
    """The names that set_sharing_strategy knows.

    Returns:
        set of str: "file_descriptor" and "file_system".

    Example:
        >>> sorted(rl.multiprocessing.get_all_sharing_strategies())
        ['file_descriptor', 'file_system']
    """
    return set(_STRATEGIES)


def set_sharing_strategy(new_strategy: Any) -> None:
    """Where memory that is shared from now on lies: behind file descriptors without a name, which
    the kernel frees by itself, or in files in /dev/shm, which others can open by name.

    Arguments:
        new_strategy: "file_descriptor" or "file_system".

    Raises:
        AssertionError: there is no such strategy.

    Example:
        >>> before = rl.multiprocessing.get_sharing_strategy()
        >>> rl.multiprocessing.set_sharing_strategy("file_system")
        >>> rl.multiprocessing.get_sharing_strategy()
        'file_system'
        >>> rl.multiprocessing.set_sharing_strategy(before)
    """
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy: expected one of {list(_STRATEGIES)}, got {new_strategy!r}"
        )
    _C._named_arenas(new_strategy == "file_system")


def get_sharing_strategy() -> str:
    """The strategy in use: where memory that is shared from now on lies.

    Returns:
        str: "file_descriptor" or "file_system".

    Example:
        >>> strategy = rl.multiprocessing.get_sharing_strategy()
        >>> strategy in rl.multiprocessing.get_all_sharing_strategies()
        True
    """
    return _STRATEGIES[_C._named_arenas(None)]
