"""One thread that remembers when calls are late, and does what may not be done in destructors."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable

_PAUSE = 0.2  # seconds within which what was left is done


class Timer:
    """A function to be called, unless it is cancelled before."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        """Forgets the function, and what it holds."""
        self.function = None


class Housekeeper:
    """Calls functions at their times; ``leave`` adds one from any place, also a destructor, where
    no lock may be taken."""

    def __init__(self, name: str) -> None:
        self._times: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._left: deque[Callable[[], None]] = deque()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def at(self, seconds: float, timer: Timer) -> None:
        """Calls the timer's function after these seconds."""
        with self._changed:
            entry = (time.monotonic() + seconds, next(self._numbers), timer)
            heapq.heappush(self._times, entry)
            if self._times[0] is entry:
                self._changed.notify()

    def leave(self, function: Callable[[], None]) -> None:
        """Calls the function soon."""
        self._left.append(function)

    def do_what_was_left(self) -> None:
        while self._left:
            self._left.popleft()()

    def _run(self):
        while not self._ends:
            self.do_what_was_left()
            with self._changed:
                wait = _PAUSE
                if self._times:
                    wait = min(wait, self._times[0][0] - time.monotonic())
                if wait > 0:
                    self._changed.wait(wait)
                due = []
                while self._times and self._times[0][0] <= time.monotonic():
                    due.append(heapq.heappop(self._times)[2])
            for timer in due:
                if (function := timer.function) is not None:
                    function()

    def end(self) -> None:
        """Ends the thread."""
        self._ends = True
        with self._changed:
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)
