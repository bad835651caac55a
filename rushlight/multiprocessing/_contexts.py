"""Contexts of multiprocessing whose channels carry tensors."""

from __future__ import annotations

import multiprocessing
from multiprocessing import context as standard


class SharingContext:
    """Put over a context of the standard module: its channels carry tensors."""

    def Pipe(self, duplex=True):
        """Two connected ends that send and receive objects; tensors stay shared.

        Arguments:
            duplex: both ends send and receive; otherwise the first receives, the second sends.

        Returns:
            tuple: the two ends.

        Example:
            >>> receiving, sending = rl.multiprocessing.Pipe(duplex=False)
            >>> x = rl.tensor([1.0, 2.0])
            >>> sending.send({"x": x})
            >>> y = receiving.recv()["x"]
            >>> y[0] = 5.0
            >>> x
            tensor([5., 2.])
        """
        from rushlight.multiprocessing import _channels

        return _channels.pipe(duplex)

    def Queue(self, maxsize=0):
        """A queue for any number of senders and receivers; tensors stay shared.

        Arguments:
            maxsize: how many objects it holds before put waits; 0 for as many as the system allows.

        Returns:
            a queue with the methods of the standard module's.

        Example:
            >>> queue = rl.multiprocessing.Queue(maxsize=2)
            >>> queue.put(rl.arange(3))
            >>> queue.get()
            tensor([0, 1, 2])
        """
        from rushlight.multiprocessing import _channels

        return _channels.Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize=0):
        """A Queue with task_done and join.

        Arguments:
            maxsize: how many objects it holds before put waits; 0 for as many as the system allows.

        Returns:
            a queue with the methods of the standard module's.

        Example:
            >>> queue = rl.multiprocessing.JoinableQueue(maxsize=4)
            >>> queue.put(rl.ones(2))
            >>> queue.get()
            tensor([1., 1.])
            >>> queue.task_done()
            >>> queue.join()  # all that was put in is done
        """
        from rushlight.multiprocessing import _channels

        return _channels.JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self):
        """A queue without a thread: put waits while the pipe is full.

        Returns:
            a queue with put, get and empty.

        Example:
            >>> queue = rl.multiprocessing.SimpleQueue()
            >>> queue.put(("loss", rl.tensor(0.5)))
            >>> queue.get()
            ('loss', tensor(0.5000))
            >>> queue.empty()
            True
        """
        from rushlight.multiprocessing import _channels

        return _channels.SimpleQueue(ctx=self.get_context())

    def Pool(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None):
        """Processes that call functions; arguments and results are sent as in a queue.

        Arguments:
            processes: how many; None for as many as there are processors.
            initializer: what each process calls when it begins.
            initargs: the arguments of `initializer`.
            maxtasksperchild: how many calls a process serves before a new one replaces it; None for
                all.

        Returns:
            a pool with the methods of the standard module's.

        Example:
            >>> with rl.multiprocessing.Pool(processes=1) as pool:
            ...     pool.map(len, [rl.ones(3), rl.ones(5)])
            [3, 5]
        """
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
    """The context of a start method, or of the current one: an object with the functions of this
    package.

    Arguments:
        method: "fork", "spawn" or "forkserver"; None for the one that the standard module uses.

    Returns:
        a context of the standard module, whose channels carry tensors.

    Raises:
        ValueError: there is no such method.

    Example:
        >>> context = rl.multiprocessing.get_context(method="spawn")
        >>> context.get_start_method()
        'spawn'
        >>> queue = context.SimpleQueue()
        >>> queue.put(rl.ones(1))
        >>> queue.get()
        tensor([1.])
    """
    if method is None:
        method = multiprocessing.get_start_method()
    if method not in _CONTEXTS:
        raise ValueError(f"cannot find context for {method!r}")
    return _CONTEXTS[method]
