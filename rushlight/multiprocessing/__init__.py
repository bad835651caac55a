"""The standard module ``multiprocessing``, with tensors that travel through shared memory.

A tensor that is sent moves to shared memory and stays one tensor: every process sees what another
writes. docs/multiprocessing.md is the guide.
"""

import atexit
import multiprocessing
from multiprocessing import *  # noqa: F403

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


def Pipe(duplex=True):
    return get_context().Pipe(duplex)


def Queue(maxsize=0):
    return get_context().Queue(maxsize)


def JoinableQueue(maxsize=0):
    return get_context().JoinableQueue(maxsize)


def SimpleQueue():
    return get_context().SimpleQueue()


def Pool(processes=None, initializer=None, initargs=(), maxtasksperchild=None):
    return get_context().Pool(processes, initializer, initargs, maxtasksperchild)


for _function in (Pipe, Queue, JoinableQueue, SimpleQueue, Pool):
    _function.__doc__ = getattr(_contexts.SharingContext, _function.__name__).__doc__


_STRATEGIES = ("file_descriptor", "file_system")


def get_all_sharing_strategies():
    """The names that set_sharing_strategy knows."""
    return set(_STRATEGIES)


def set_sharing_strategy(new_strategy):
    """Where memory that is shared from now on lies: behind file descriptors without a name, which
    the kernel frees by itself, or in files in /dev/shm, which others can open by name."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy: expected one of {list(_STRATEGIES)}, got {new_strategy!r}"
        )
    _C._named_arenas(new_strategy == "file_system")


def get_sharing_strategy():
    """The strategy in use."""
    return _STRATEGIES[_C._named_arenas(None)]
