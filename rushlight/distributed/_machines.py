"""What the launchers of several machines tell each other, through the store of machine 0."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta

from rushlight.distributed._errors import DistNetworkError
from rushlight.distributed._stores import PrefixStore, Store

_BEAT = 1.0  # seconds between two signs of life
_LOST = 15.0  # without one, a launcher is taken for gone
_GOODBYE = 10.0  # how long machine 0 keeps the store for the others


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


class Alone:
    """One machine: there is nobody to tell."""

    interval = 0.2

    def __init__(self, processes: int) -> None:
        self.processes = processes

    def join(self, asked: Callable[[], bool]) -> list[int] | None:
        """How many processes each machine has, once all have come; None when ``asked()``."""
        return [self.processes]

    def failure(self, attempt: int) -> Failure | None:
        """What ended the attempt, on any machine."""
        return None

    def say_failed(self, attempt: int, failure: Failure) -> Failure:
        """Tells the others; returns what failed first."""
        return failure

    def all_are(self, state: str, attempt: int) -> bool:
        """Says that this machine is "done" or "stopped"; whether all are."""
        return True

    def leave(self) -> None:
        """No more is asked of the store, nor of this launcher."""


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
        self._node, self._nodes, self._timeout = node, nodes, timeout
        self._job = {"--rdzv-id": run_id, "--nnodes": nodes, "--max-restarts": restarts}
        self._beats = 0
        self._beaten = 0.0
        self._seen: dict[int, tuple[bytes, float]] = {}

    def join(self, asked: Callable[[], bool]) -> list[int] | None:
        self._compare_jobs()
        mine = f"{self.processes} {time.time_ns()}"
        if self._store.compare_set(f"node/{self._node}", "", mine) != mine.encode():
            raise ValueError(
                f"a launcher with --node-rank {self._node} is there already; each machine needs a "
                "number of its own"
            )
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
        return [int(value.split()[0]) for value in self._store.multi_get(names)]

    def _compare_jobs(self):
        # Outside of the job's own keys: a launcher of another job came to the wrong address.
        mine = json.dumps(self._job)
        theirs = json.loads(self._all.compare_set("job/of_this_store", "", mine))
        for option, value in self._job.items():
            if theirs[option] != value:
                raise ValueError(
                    f"{option} is {value!r} here and {theirs[option]!r} at the machine that came "
                    "first; the launchers of a job have the same options"
                )

    def failure(self, attempt: int) -> Failure | None:
        self._beat()
        if self._store.check([f"failed/{attempt}"]):
            return Failure(**json.loads(self._store.get(f"failed/{attempt}")))
        lost = self._lost()
        if lost is None:
            return None
        return self.say_failed(attempt, Failure(
            "?", 1, words=f"the launcher of machine {lost} is gone", final=True))  # fmt: skip

    def say_failed(self, attempt: int, failure: Failure) -> Failure:
        text = json.dumps(asdict(failure))
        return Failure(**json.loads(self._store.compare_set(f"failed/{attempt}", "", text)))

    def all_are(self, state: str, attempt: int) -> bool:
        self._store.set(f"{state}/{attempt}/{self._node}", "")
        self._beat()
        if self._store.check([f"{state}/{attempt}/{node}" for node in range(self._nodes)]):
            return True
        lost = self._lost()
        if lost is not None and state == "stopped":
            raise DistNetworkError(f"the launcher of machine {lost} is gone")
        return False

    def leave(self) -> None:
        try:
            left = self._store.add("left", 1)
            deadline = time.monotonic() + _GOODBYE
            while self._node == 0 and left < self._nodes and time.monotonic() < deadline:
                if self._lost() is not None:
                    return
                time.sleep(0.05)
                left = self._store.add("left", 0)
        except DistNetworkError:  # machine 0 is gone, which was said before
            pass

    def _beat(self):
        if time.monotonic() - self._beaten >= _BEAT:
            self._beaten = time.monotonic()
            self._beats += 1
            self._store.set(f"beat/{self._node}", str(self._beats))

    def _lost(self):
        """A launcher that gives no sign of life any more."""
        now = time.monotonic()
        for node in range(self._nodes):
            if node == self._node:
                continue
            name = f"beat/{node}"
            value = self._store.get(name) if self._store.check([name]) else b""
            if self._seen.get(node, (None, 0.0))[0] != value:
                self._seen[node] = value, now
            elif now - self._seen[node][1] > _LOST:
                return node
        return None


def join_timeout(text: str) -> float:
    """What --rdzv-conf says of join_timeout or timeout, in seconds."""
    found = dict(part.partition("=")[::2] for part in text.split(",") if part)
    value = found.get("join_timeout", found.get("timeout", "600"))
    try:
        return timedelta(seconds=float(value)).total_seconds()
    except ValueError:
        raise ValueError(f"--rdzv-conf: expected join_timeout=SECONDS, got {value!r}") from None
