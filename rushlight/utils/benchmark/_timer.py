"""Timer: how long a piece of code takes."""

from __future__ import annotations

import enum
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight import _C
from rushlight.utils.benchmark._measurement import Measurement, TaskSpec

__all__ = ["Language", "Timer", "timer"]


class Language(enum.Enum):
    """In which language the code is written.

    Example:
        >>> rl.utils.benchmark.Language.PYTHON
        <Language.PYTHON: 0>
    """

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """The time in seconds, after the GPU has done its work.

    Example:
        >>> start = rl.utils.benchmark.timer()
        >>> rl.utils.benchmark.timer() >= start
        True
    """
    from rushlight import cuda

    if cuda.is_available():
        cuda.synchronize()
    return timeit.default_timer()


class Timer:
    """Times a statement, on one thread unless num_threads says otherwise.

    Arguments:
        stmt: the statement; lines before it that are empty, and its indentation, do not matter.
        setup: what runs once before each block of runs.
        global_setup: accepted.
        timer: a function that gives the time in seconds.
        globals: the names that the statement may use; `torch` is the library.
        label, sub_label, description: names for tables, see Compare.
        env: a name of the environment.
        num_threads: how many threads operators have.
        language: only Python can be timed.

    Example:
        >>> t = rl.utils.benchmark.Timer("x + 1", globals={"x": rl.ones(2)}, label="add")
        >>> m = t.timeit(10)
        >>> m.title, m.number_per_run, m.median > 0
        ('add', 10, True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = Language.PYTHON,
    ) -> None:
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError("benchmark.Timer: only Python statements can be timed")
        if not isinstance(stmt, str):
            raise ValueError("benchmark.Timer: stmt must be a str")
        self._globals = dict(globals or {})
        import rushlight

        self._globals.setdefault("torch", rushlight)  # as in PyTorch, statements may use it
        self._timer = timeit.Timer(_dedent(stmt), _dedent(setup), timer, self._globals)
        self._task_spec = TaskSpec(
            stmt=_dedent(stmt), setup="" if setup == "pass" else _dedent(setup), label=label,
            sub_label=sub_label, description=description, env=env, num_threads=num_threads,
        )  # fmt: skip

    def _threads(self):
        return _Threads(self._task_spec.num_threads)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Runs the statement `number` times in one block, after a short warm-up."""
        with self._threads():
            self._timer.timeit(max(number // 100, 2))
            times = [self._timer.timeit(number)]
        return Measurement(number, times, self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Not in PyTorch's Timer either."""
        raise NotImplementedError("benchmark.Timer.repeat: see blocked_autorange")

    def _block_size(self, min_run_time):
        """How often to run in a block, so that reading the clock costs nothing."""
        number = 1
        while True:
            taken = self._timer.timeit(number)
            if taken >= min(min_run_time / 1000, 1e-2) or number >= 1_000_000_000:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], NoReturn] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs blocks until min_run_time seconds have been measured."""
        with self._threads():
            number = self._block_size(min_run_time)
            times = []
            while sum(times) < min_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], NoReturn] | None = None,
    ) -> Measurement:
        """Runs blocks until the times agree: their middle half within threshold of the median."""
        with self._threads():
            number = self._block_size(min_run_time)
            times = []
            while True:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                measured = Measurement(number, times, self._task_spec)
                steady = len(times) > 3 and measured.iqr < threshold * measured.median
                if (steady and sum(times) > min_run_time) or sum(times) > max_run_time:
                    return measured

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        **_: Any,
    ) -> NoReturn:
        """Counting instructions is not supported."""
        raise NotImplementedError("benchmark.Timer.collect_callgrind: not supported")


class _Threads:
    """Another number of threads for the time of a with block."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.before = _C.get_num_threads()
        _C.set_num_threads(self.count)

    def __exit__(self, *error):
        _C.set_num_threads(self.before)


def _dedent(code):
    import textwrap

    lines = code.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return textwrap.dedent("\n".join(lines))
