"""The launcher's ranks as a function in processes of multiprocessing, as notebooks start them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from rushlight.distributed._agent import Agent, Job, Rank, end_with_parent


def _run(function, args, variables, sending):
    end_with_parent()
    os.environ.update(variables)
    try:
        sending.send(("returned", function(*args)))
    except BaseException as error:
        groups = sys.modules.get("rushlight.distributed._world")
        if groups is not None:  # ranks that wait for this one are told why it does not come
            groups.world.say_raised(error)
        sending.send(("raised", traceback.format_exc()))
        raise


class _Process:
    """A process of multiprocessing with the methods of subprocess.Popen that the agent calls."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid = process.pid
        self._waiting = threading.Lock()  # two threads may not wait for one process

    def poll(self) -> int | None:
        with self._waiting:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        import multiprocessing.connection

        multiprocessing.connection.wait([self._process.sentinel], timeout)
        with self._waiting:
            self._process.join(0 if timeout is not None else None)
            code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("rank", timeout or 0.0)
        return code

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


class FunctionAgent(Agent):
    """Runs ``function(*args)`` as every rank; ``results`` has what they returned, by rank."""

    def __init__(
        self, job: Job, function: Callable[..., Any], args: list[Any], start_method: str
    ) -> None:
        super().__init__(job)
        from rushlight.multiprocessing import get_context

        self._context = get_context(start_method)
        self._function, self._args = function, args
        self.results: dict[int, Any] = {}

    def _attempt(self, attempt):
        self.results.clear()  # those of an attempt that failed, perhaps on more ranks
        return super()._attempt(attempt)

    def _start(self, local, attempt):
        variables = self._environment(local, attempt)
        receiving, sending = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_run, args=(self._function, self._args, variables, sending)
        )
        process.start()
        sending.close()
        rank = Rank(self._number(local), _Process(process))
        reader = threading.Thread(target=self._receive, args=(rank, receiving), daemon=True)
        rank.readers = [reader]
        reader.start()
        threading.Thread(target=self._watch, args=(rank,), daemon=True).start()
        return rank

    def _receive(self, rank, receiving):
        try:
            kind, value = receiving.recv()
        except EOFError:
            return
        if kind == "returned":
            self.results[rank.number] = value
        else:
            rank.lines.extend(value.encode().splitlines(keepends=True))

    def _explain(self, failure):
        pass  # the error that is raised says it
