"""spawn and start_processes: the same function in several processes, failing together."""

from __future__ import annotations

import ctypes
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Literal, overload

from rushlight.multiprocessing._contexts import get_context

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

_PR_SET_PDEATHSIG = 1


class ProcessException(Exception):
    """One of several processes failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """It raised an exception; the text holds its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """It ended by a signal, or with an exit code other than 0."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int,
                 signal_name: str | None = None) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name,
        )  # fmt: skip


def _run(function, index, args, errors, parent):
    # A parent that is killed cannot tell its children to stop; the kernel can.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:
        sys.exit(1)
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass  # the parent stops everything
    except Exception as error:
        groups = sys.modules.get("rushlight.distributed._world")
        if groups is not None:  # ranks that wait for this one are told why it does not come
            groups.world.say_raised(error)
        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together: what `start_processes` gives with ``join=False``.

    Arguments:
        processes: the processes, which run already.
        errors: for each of them the end of a pipe, where the text of its exception comes.

    Example:
        >>> from rushlight import multiprocessing as mp
        >>> def fill(i, x):
        ...     x[i] = i + 1
        >>> x = rl.zeros(2).share_memory_()
        >>> context = mp.start_processes(fill, (x,), nprocs=2, join=False, start_method="fork")
        >>> isinstance(context, mp.ProcessContext), len(context.pids())
        (True, 2)
        >>> while not context.join():
        ...     pass
        >>> x
        tensor([1., 2.])
    """

    def __init__(self, processes: Any, errors: Any) -> None:
        self.processes = processes
        self._errors = errors
        self._running = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:  # type: ignore[return]
        """Waits until a process ends. True when all have ended well; when one fails, the others are
        stopped (after grace_period seconds) and its error is raised."""
        if not self._running:
            return True
        ready = multiprocessing.connection.wait(list(self._running), timeout=timeout)
        failed = None
        for sentinel in ready:
            index = self._running.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self._running
        _stop([p for i, p in enumerate(self.processes) if i != failed], grace_period)
        self._running.clear()
        self._raise(failed)

    def _raise(self, index):
        process, errors = self.processes[index], self._errors[index]
        text = None
        try:
            if errors.poll():
                text = errors.recv()
        except EOFError:
            pass
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                index,
                process.pid,
            )
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, process.pid, code
        )


def _stop(processes, grace_period):
    deadline = time.monotonic() + (grace_period or 0)
    for process in processes:
        process.join(max(0, deadline - time.monotonic()) if grace_period else 0)
    for process in processes:
        if process.is_alive():
            process.terminate()
    deadline = time.monotonic() + 5
    for process in processes:
        process.join(max(0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
        process.join()


class SpawnContext(ProcessContext):
    """PyTorch's older name of `ProcessContext`.

    Arguments:
        processes: the processes, which run already.
        errors: for each of them the end of a pipe, where the text of its exception comes.

    Example:
        >>> from rushlight import multiprocessing as mp
        >>> mp.SpawnContext([], []).join()  # nobody to wait for
        True
        >>> issubclass(mp.SpawnContext, mp.ProcessContext)
        True
    """


@overload
def start_processes(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: Literal[True] = True,
    daemon: bool = False, start_method: str = "spawn",
) -> None: ...  # fmt: skip
@overload
def start_processes(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, *, join: Literal[False],
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext: ...  # fmt: skip
@overload
def start_processes(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None: ...  # fmt: skip
def start_processes(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Calls ``fn(i, *args)`` in ``nprocs`` processes.

    When one of them fails, the others are stopped.

    Arguments:
        fn: what they call; with "spawn" and "forkserver" a function that a module defines.
        args: its arguments behind the number of the process.
        nprocs: how many processes.
        join: wait for all of them; otherwise the `ProcessContext` does, when it is told to.
        daemon: stop them when this process ends; they cannot start others then.
        start_method: "spawn", "fork" or "forkserver".

    Returns:
        None, or a ProcessContext with ``join=False``.

    Raises:
        ProcessRaisedException: a process raised; the text has its traceback.
        ProcessExitedException: a process ended by a signal, or with an exit code other than 0.

    Example:
        >>> from rushlight import multiprocessing as mp
        >>> def fill(i, x, factor):
        ...     x[i] = factor * i
        >>> x = rl.zeros(3).share_memory_()
        >>> mp.start_processes(fill, args=(x, 10), nprocs=3, start_method="fork")
        >>> x
        tensor([ 0., 10., 20.])
    """
    context = get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(
            target=_run, args=(fn, index, args, sending, os.getpid()), daemon=daemon
        )
        process.start()
        sending.close()
        processes.append(process)
        errors.append(receiving)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


@overload
def spawn(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: Literal[True] = True,
    daemon: bool = False, start_method: str = "spawn",
) -> None: ...  # fmt: skip
@overload
def spawn(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, *, join: Literal[False],
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext: ...  # fmt: skip
@overload
def spawn(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None: ...  # fmt: skip
def spawn(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Calls ``fn(i, *args)`` in ``nprocs`` fresh processes, and waits for them.

    When one of them fails, the others are stopped.

    Arguments:
        fn: what they call: a function that a module defines, as fresh processes import it.
        args: its arguments behind the number of the process.
        nprocs: how many processes.
        join: wait for all of them; otherwise the `ProcessContext` does, when it is told to.
        daemon: stop them when this process ends; they cannot start others then.
        start_method: "spawn"; "fork" and "forkserver" are those of `start_processes`.

    Returns:
        None, or a ProcessContext with ``join=False``.

    Raises:
        ProcessRaisedException: a process raised; the text has its traceback.
        ProcessExitedException: a process ended by a signal, or with an exit code other than 0.

    Example:
        >>> from rushlight import multiprocessing as mp
        >>> def fill(i, x):
        ...     x[i] = i + 0.5
        >>> x = rl.zeros(2).share_memory_()
        >>> mp.spawn(fill, args=(x,), nprocs=2, start_method="fork")  # as fill is in no module
        >>> x
        tensor([0.5000, 1.5000])
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
