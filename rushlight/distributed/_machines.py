"""What the launchers of several machines tell each other, through the store of machine 0."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from rushlight.distributed._errors import DistNetworkError
from rushlight.distributed._stores import PrefixStore, Store

_BEAT = 1.0  # seconds between two signs of life, at most
_LOST = 15.0  # without one, a launcher is taken for gone
GOODBYE = 10.0  # how long the store is kept for the others


@dataclass
class Failure:
    """Why an attempt ended: a rank that failed, a launcher that was asked to end or is gone."""

    host: str
    code: int  # as subprocess has it: negative for signals
    number: int = -1  # of the rank; -1: a launcher
    local: int = -1
    pid: int = 0
    words: str = ""  # what the rank printed last
    final: bool = False  # starting again would not help
    machines: bool = False  # a launcher has come or gone, and the others go on


class Alone:
    """One machine: there is nobody to tell."""

    interval = 0.2
    place = 0  # this machine's number
    attempt = 0

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._shares: list[int] | None = [processes]

    @property
    def restarts(self) -> int:
        """How often failures have led to another attempt."""
        return self.attempt

    def join(self, asked: Callable[[], bool]) -> list[int] | None:
        """How many processes each machine has, once all have come; None when ``asked()``."""
        return self._shares

    def failure(self, attempt: int) -> Failure | None:
        """What ended the attempt, on any machine."""
        return None

    def say_failed(self, attempt: int, failure: Failure) -> Failure:
        """Tells the others; returns what failed first."""
        return failure

    def all_are(self, state: str, attempt: int) -> bool:
        """Says that this machine is "done" or "stopped"; whether all are."""
        return True

    def regroup(self, attempt: int, asked: Callable[[], bool]) -> list[int] | None:
        """The ranks here are stopped: waits until all are, and the next attempt may begin. What
        ``join`` returns."""
        while not self.all_are("stopped", attempt):
            if asked():
                return None
            time.sleep(self.interval)
        self.attempt = attempt + 1
        return self._shares

    def leave(self) -> None:
        """No more is asked of the store, nor of this launcher."""


class Heartbeats:
    """Signs of life of numbered launchers, in a store."""

    def __init__(self, store: Store, number: int, lost: float | None = None) -> None:
        self._store, self._number = store, number
        self._lost = lost  # None: _LOST
        self._beats, self._beaten = 0, 0.0
        self._seen: dict[int, tuple[bytes, float]] = {}

    def beat(self) -> None:
        """A sign of this launcher, if it is time for one."""
        if time.monotonic() - self._beaten >= min(_BEAT, (self._lost or _LOST) / 5):
            self._beaten = time.monotonic()
            self._beats += 1
            self._store.set(f"beat/{self._number}", str(self._beats))

    def last(self, number: int) -> bytes:
        """The last sign of that launcher; empty where there is none yet."""
        name = f"beat/{number}"
        return self._store.get(name) if self._store.check([name]) else b""

    def is_lost(self, number: int) -> bool:
        """Whether that launcher has given no sign of life for too long."""
        now = time.monotonic()
        value = self.last(number)
        if self._seen.get(number, (None, 0.0))[0] != value:
            self._seen[number] = value, now
        return now - self._seen[number][1] > (self._lost or _LOST)


def compare_jobs(store: Store, job: dict[str, Any]) -> None:
    """Refuses a launcher that was told something else than the first one. Outside of the job's own
    keys: it may belong to another job, and came to the wrong address."""
    theirs = json.loads(store.compare_set("job/of_this_store", "", json.dumps(job)))
    for option, value in job.items():
        if theirs.get(option) != value:
            raise ValueError(
                f"{option} is {value!r} here and {theirs.get(option)!r} at the machine that came "
                "first; the launchers of a job have the same options"
            )


def say_first(store: Store, attempt: int, failure: Failure, state: str = "failed") -> Failure:
    """Writes down what ended the attempt, unless somebody has; returns what stands there."""
    text = json.dumps(asdict(failure))
    return Failure(**json.loads(store.compare_set(f"{state}/{attempt}", "", text)))


class Machines(Alone):
    """One of several launchers of a job."""

    def __init__(
        self, store: Store, run_id: str, node: int, nodes: int, processes: int, restarts: int,
        interval: float, timeout: float,
    ) -> None:  # fmt: skip
        super().__init__(processes)
        self.interval = interval
        self._all = store
        self._store = PrefixStore(f"job/{run_id}/launchers", store)
        self.place = self._node = node
        self._nodes, self._timeout = nodes, timeout
        self._job = {"--rdzv-id": run_id, "--nnodes": nodes, "--max-restarts": restarts}
        self._beats = Heartbeats(self._store, node)
        self._came = False

    def join(self, asked: Callable[[], bool]) -> list[int] | None:
        compare_jobs(self._all, self._job)
        mine = f"{self.processes} {time.time_ns()}"
        if self._store.compare_set(f"node/{self._node}", "", mine) != mine.encode():
            raise ValueError(
                f"a launcher with --node-rank {self._node} is there already; each machine needs a "
                "number of its own"
            )
        self._came = True
        names = [f"node/{node}" for node in range(self._nodes)]
        deadline = time.monotonic() + self._timeout
        while not self._store.check(names):
            if asked():
                return None
            if time.monotonic() > deadline:
                missing = [n for n, name in enumerate(names) if not self._store.check([name])]
                raise ValueError(
                    f"after {self._timeout:g} s the launchers of machines {missing} have not come "
                    "(--rdzv-conf join_timeout=SECONDS)"
                )
            time.sleep(min(self.interval, 0.2))
        self._shares = [int(value.split()[0]) for value in self._store.multi_get(names)]
        return self._shares

    def failure(self, attempt: int) -> Failure | None:
        self._beats.beat()
        if self._store.check([f"failed/{attempt}"]):
            return Failure(**json.loads(self._store.get(f"failed/{attempt}")))
        lost = self._lost()
        if lost is None:
            return None
        return self.say_failed(attempt, Failure(
            "?", 1, words=f"the launcher of machine {lost} is gone", final=True))  # fmt: skip

    def say_failed(self, attempt: int, failure: Failure) -> Failure:
        return say_first(self._store, attempt, failure)

    def all_are(self, state: str, attempt: int) -> bool:
        self._store.set(f"{state}/{attempt}/{self._node}", "")
        self._beats.beat()
        if self._store.check([f"{state}/{attempt}/{node}" for node in range(self._nodes)]):
            return True
        lost = self._lost()
        if lost is not None and state == "stopped":
            raise DistNetworkError(f"the launcher of machine {lost} is gone")
        return False

    def leave(self) -> None:
        if not self._came:
            return
        try:
            left = self._store.add("left", 1)
            came = sum(self._store.check([f"node/{node}"]) for node in range(self._nodes))
            deadline = time.monotonic() + GOODBYE
            while self._node == 0 and left < came and time.monotonic() < deadline:
                if self._lost() is not None:
                    return
                time.sleep(0.05)
                left = self._store.add("left", 0)
        except DistNetworkError:  # machine 0 is gone, which was said before
            pass

    def _lost(self):
        """A launcher that gives no sign of life any more."""
        others = (node for node in range(self._nodes) if node != self._node)
        return next((node for node in others if self._beats.is_lost(node)), None)


def seconds_in(text: str, name: str, default: float) -> float:
    """What --rdzv-conf says of this name."""
    found = dict(part.partition("=")[::2] for part in text.split(",") if part)
    try:
        seconds = timedelta(seconds=float(found.get(name, default))).total_seconds()
    except (ValueError, OverflowError):
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f"--rdzv-conf: expected {name}=SECONDS, got {found[name]!r}")
    return seconds


def join_timeout(text: str) -> float:
    """What --rdzv-conf says of join_timeout or timeout, in seconds."""
    return seconds_in(text, "join_timeout", seconds_in(text, "timeout", 600.0))
