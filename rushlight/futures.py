"""Results that are there later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.types import Device, Self

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A result that one thread sets and others wait for.

    Arguments:
        devices: accepted.

    Example:
        >>> future = rl.Future(devices=None)
        >>> doubled = future.then(lambda done: done.value() * 2)
        >>> future.done()
        False
        >>> future.set_result(21)
        >>> future.wait(), doubled.wait()
        (21, 42)
    """

    def __init__(self, *, devices: list[int | str | Device] | None = None) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks = []
        self._value = self._error = None

    def done(self) -> bool:
        """Whether the result, or an error, is there."""
        return self._event.is_set()

    def wait(self) -> Any:
        """Waits for the result; raises if there was an error instead."""
        self._event.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error's traceback has this frame: no cycle through the future
        return self._value

    def value(self) -> Any:
        """The result, which must be there."""
        if not self.done():
            raise RuntimeError("Future.value: there is no result yet; call wait()")
        return self.wait()

    def _outcome(self):
        """(result, error) of one that is done, without raising: a raised error keeps the frames
        that it went through."""
        return self._value, self._error

    def _finish(self, value, error):
        with self._lock:
            if self._event.is_set():
                raise RuntimeError("Future: the result was set before")
            self._value, self._error = value, error
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def set_result(self, result: Any) -> None:
        """Sets the result and calls what waits for it."""
        self._finish(result, None)

    def set_exception(self, result: Self) -> None:
        """Sets an error in the result's place."""
        if not isinstance(result, Exception):
            raise AssertionError(f"set_exception: {result!r} is no Exception")
        self._finish(None, result)

    def add_done_callback(self, callback: Callable[[Future], None]) -> None:
        """Calls callback(future) when the result is there."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[..., Any]) -> Future:
        """A future of callback(self)."""
        after = Future()

        def run(future):
            try:
                result = callback(future)
            except Exception as error:
                after.set_exception(error)
            else:
                after.set_result(result)

        self.add_done_callback(run)
        return after

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def collect_all(futures: Sequence[Future]) -> Future:
    """A future of the list of futures, done when all of them are."""
    both, left, lock = Future(), [len(futures)], threading.Lock()
    if not futures:
        both.set_result([])

    def one_done(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            both.set_result(list(futures))

    for future in futures:
        future.add_done_callback(one_done)
    return both


def wait_all(futures: Sequence[Future]) -> list:
    """The results of all, in order."""
    return [future.wait() for future in collect_all(futures).wait()]


__getattr__ = names_missing_from(__name__)
