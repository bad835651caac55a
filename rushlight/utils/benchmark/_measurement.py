"""What a Timer measured."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable

__all__ = ["Measurement", "TaskSpec", "select_unit"]

_UNITS = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time in seconds reads best, and its size.

    Arguments:
        t: the time.

    Example:
        >>> rl.utils.benchmark.select_unit(0.25)
        ('ms', 0.001)
    """
    for size, name in _UNITS:
        if t >= size:
            return name, size
    return "ns", 1e-9


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What was measured.

    Arguments:
        stmt: the statement.
        setup: what ran once before it.
        global_setup: accepted.
        label, sub_label, description: names for tables, see Compare.
        env: a name of the environment.
        num_threads: how many threads it had.

    Example:
        >>> rl.utils.benchmark.TaskSpec("x + 1", label="add", sub_label="small").title
        'add: small'
    """

    stmt: str
    setup: str = ""
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else "[...]"


@dataclasses.dataclass
class Measurement:
    """Times of blocks of runs; the median run is the time to report.

    Arguments:
        number_per_run: how many runs a block has.
        raw_times: the time of each block, in seconds.
        task_spec: what was measured.
        metadata: a dict to keep with it.

    Example:
        >>> spec = rl.utils.benchmark.TaskSpec("x + 1")
        >>> m = rl.utils.benchmark.Measurement(10, [0.5, 1.0, 3.0], spec, metadata={"run": 1})
        >>> m.times, m.median
        ([0.05, 0.1, 0.3], 0.1)
    """

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: dict | None = None

    @property
    def times(self) -> list[float]:
        """The time of one run, block by block."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The width of the middle half of the times."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def has_warnings(self) -> bool:
        return bool(self.iqr > 0.1 * self.median)

    @property
    def significant_figures(self) -> int:
        return 3 if self.iqr < 0.02 * self.median else 2

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        return self.task_spec.env

    @property
    def num_threads(self) -> int:
        return self.task_spec.num_threads

    stmt = property(lambda self: self.task_spec.stmt)
    label = property(lambda self: self.task_spec.label)
    sub_label = property(lambda self: self.task_spec.sub_label)
    description = property(lambda self: self.task_spec.description)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of one task as one, with all their blocks."""
        found = {}
        for m in measurements:
            found.setdefault(m.task_spec, []).append(m)
        return [
            Measurement(1, [t for m in group for t in m.times], spec)
            for spec, group in found.items()
        ]

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        lines = [object.__repr__(self).replace(" object at", " at"), self.title]
        if self.task_spec.setup:
            lines.append(f"setup: {self.task_spec.setup}")
        if len(self.raw_times) > 1:
            lines.append(f"  Median: {self.median / size:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / size:.2f} {unit}")
        else:
            lines.append(f"  {self.median / size:.2f} {unit}")
        threads = "thread" if self.num_threads == 1 else "threads"
        count = len(self.raw_times)
        what = "measurement" if count == 1 else "measurements"
        lines.append(f"  {count} {what}, {self.number_per_run} runs per measurement, "
                     f"{self.num_threads} {threads}")  # fmt: skip
        return "\n".join(lines)
