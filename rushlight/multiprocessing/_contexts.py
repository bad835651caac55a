"""Contexts of multiprocessing whose channels carry tensors."""

from __future__ import annotations

import multiprocessing
from multiprocessing import context as standard


class SharingContext:
    """Put over a context of the standard module: its channels carry tensors."""

    def Pipe(self, duplex=True):
        """Two connected ends that send and receive objects."""
        from rushlight.multiprocessing import _channels

        return _channels.pipe(duplex)

    def Queue(self, maxsize=0):
        """A queue for any number of senders and receivers."""
        from rushlight.multiprocessing import _channels

        return _channels.Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize=0):
        """A Queue with task_done and join."""
        from rushlight.multiprocessing import _channels

        return _channels.JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self):
        """A queue without a thread: put waits while the pipe is full."""
        from rushlight.multiprocessing import _channels

        return _channels.SimpleQueue(ctx=self.get_context())

    def Pool(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None):
        """Processes that call functions; arguments and results are sent as in a queue."""
        return super().Pool(processes, initializer, initargs, maxtasksperchild)

    def get_context(self, method=None):
        return self if method is None else get_context(method)


class ForkContext(SharingContext, standard.ForkContext):
    pass


class SpawnContext(SharingContext, standard.SpawnContext):
    pass


class ForkServerContext(SharingContext, standard.ForkServerContext):
    pass


_CONTEXTS: dict[str, ForkContext | SpawnContext | ForkServerContext]
_CONTEXTS = {"fork": ForkContext(), "spawn": SpawnContext(), "forkserver": ForkServerContext()}


def get_context(method: str | None = None) -> ForkContext | SpawnContext | ForkServerContext:
    """The context of a start method, or of the current one."""
    if method is None:
        method = multiprocessing.get_start_method()
    if method not in _CONTEXTS:
        raise ValueError(f"cannot find context for {method!r}")
    return _CONTEXTS[method]
