"""Launchers that come and go: --nnodes MIN:MAX.

The launcher that holds the store decides. It writes down who takes part in a round: all launchers
that give signs of life, MIN to MAX of them. A round ends when a rank fails, when a launcher is gone
or leaves, or when another one has come and there is room; then the ranks of all are stopped, and
the next round begins with whoever is there. Only failures of ranks count as restarts.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight.distributed._errors import DistNetworkError
from rushlight.distributed._machines import GOODBYE, Failure, Heartbeats, compare_jobs, say_first
from rushlight.distributed._stores import PrefixStore, Store


@dataclass
class Round:
    """Who takes part: the launchers' numbers in order of their ranks, processes of each, and how
    many restarts there were."""

    members: list[int]
    shares: list[int]
    restarts: int = 0


class ElasticMachines:
    """One of a changing number of launchers."""

    def __init__(
        self, store: Store, run_id: str, holds: bool, counts: tuple[int, int], processes: int,
        restarts: int, interval: float, timeout: float, last_call: float, lost: float,
    ) -> None:  # fmt: skip
        self.interval = interval
        self._all, self._holds, self._processes = store, holds, processes
        self._store = PrefixStore(f"job/{run_id}/elastic", store)
        self._least, self._most = counts
        self._timeout, self._last_call, self._lost = timeout, last_call, lost
        least, most = counts
        self._job = {"--rdzv-id": run_id, "--nnodes": f"{least}:{most}",
                     "--max-restarts": restarts}  # fmt: skip
        self._me = -1
        self._asked: Callable[[], bool] = lambda: False
        self._seen = 0  # rounds
        self._round = Round([], [])

    # What the agent asks.

    def join(self, asked: Callable[[], bool]) -> list[int] | None:
        """Comes to the others, and waits for the first round with this launcher: processes by
        launcher. None: the job ended before, or ``asked()``."""
        self._asked = asked
        compare_jobs(self._all, self._job)
        self._me = self._store.add("count", 1) - 1
        self._beats = Heartbeats(self._store, self._me, self._lost)
        self._beats.beat()
        self._store.set(f"member/{self._me}", str(self._processes))
        if self._holds:
            self._store.set("holder", str(self._me))
        return self._next(0, asked) if self._find_holder() else None

    def _find_holder(self) -> bool:
        deadline = time.monotonic() + self._timeout
        while not self._store.check(["holder"]):
            if self._asked():
                return False
            if time.monotonic() > deadline:
                raise ValueError(
                    f"after {self._timeout:g} s no launcher with --nnodes MIN:MAX says that it "
                    "holds the store; another program has the address of --rdzv-endpoint"
                )
            time.sleep(min(self.interval, 0.2))
        self._holder = int(self._store.get("holder"))
        return True

    @property
    def place(self) -> int:
        """This launcher's number in the round."""
        return self._round.members.index(self._me)

    @property
    def restarts(self) -> int:
        """How often failures of ranks have led to another round."""
        return self._round.restarts

    @property
    def attempt(self) -> int:
        """The round's number, from 0."""
        return self._seen - 1

    def failure(self, attempt: int) -> Failure | None:
        """What ended the round, on any machine."""
        self._beats.beat()
        found = self._said(attempt)
        if found is None:
            found = self._changed(attempt) if self._holds else self._holder_is_gone()
            found = found and self.say_failed(attempt, found)
        return found

    def say_failed(self, attempt: int, failure: Failure) -> Failure:
        """Tells the others; returns what failed first."""
        if failure.number < 0 and not self._holds:  # this launcher leaves; the others go on
            failure.final, failure.machines = False, True
        if failure.number >= 0:
            failure = say_first(self._store, attempt, failure, "suspected")
            if (gone := self._gone_with_ranks(attempt)) is not None:
                failure = _change(f"launcher {gone} is gone")
        return say_first(self._store, attempt, failure)

    def all_are(self, state: str, attempt: int) -> bool:
        """Says that this machine is "done"; whether all are."""
        self._store.set(f"{state}/{attempt}/{self._me}", "")
        self._beats.beat()
        return self._store.check([f"{state}/{attempt}/{m}" for m in self._round.members])

    def regroup(self, attempt: int, asked: Callable[[], bool]) -> list[int] | None:
        """The ranks here are stopped: waits for the next round. None: there is none."""
        failed = self._said(attempt)
        self._store.set(f"stopped/{attempt}/{self._me}", "")
        counts = failed is not None and not failed.machines
        return self._next(self._round.restarts + counts, asked)

    def leave(self) -> None:
        """No more is asked of the store, nor of this launcher."""
        if self._me < 0:
            return
        try:
            self._store.set(f"left/{self._me}", "")
            if not self._holds:
                return
            self._store.set("end", "")
            deadline = time.monotonic() + GOODBYE
            while time.monotonic() < deadline and self._here() != [self._me]:
                time.sleep(0.05)
        except DistNetworkError:  # the store is gone, which was said before
            pass

    def _gone_with_ranks(self, attempt: int) -> int | None:
        """A rank failed, perhaps because the ranks of another machine are gone, which ranks notice
        sooner than launchers: a launcher of the round that gives no sign of life after that."""
        before = {m: self._beats.last(m) for m in self._round.members if m != self._me}
        while before and not self._asked() and self._said(attempt) is None:
            self._beats.beat()
            for m, sign in list(before.items()):
                if self._store.check([f"left/{m}"]) or self._beats.is_lost(m):
                    return m
                if self._beats.last(m) != sign:
                    del before[m]
            time.sleep(min(self.interval, 0.2))
        return None

    # What the one decides that holds the store.

    def _changed(self, attempt: int) -> Failure | None:
        """Somebody of the round is gone, or others have come for whom there is room."""
        here = self._here()
        done = {m for m in self._round.members if self._store.check([f"done/{attempt}/{m}"])}
        gone = [m for m in self._round.members if m not in here and m not in done]
        new = [m for m in here if m not in self._round.members]
        if gone:
            return _change(f"launcher {gone[0]} is gone")
        if new and not done and len(self._round.members) < self._most:
            return _change(f"launcher {new[0]} has come")
        return None

    def _here(self) -> list[int]:
        """Launchers that give signs of life and have not left, the holder first."""
        numbers = range(self._store.add("count", 0))
        found = [
            n
            for n in numbers
            if n != self._me
            and self._store.check([f"member/{n}"])
            and not self._store.check([f"left/{n}"])
            and not self._beats.is_lost(n)
        ]
        return [self._me, *found]

    def _form(self, restarts: int, asked: Callable[[], bool]) -> bool:
        """Waits until enough have come, and writes the round down."""
        last = self._round.members
        began = time.monotonic()
        while True:
            self._beats.beat()
            if asked():
                return False
            here = self._here()
            stopping = [m for m in last if m in here and m != self._me
                        and not self._store.check([f"stopped/{self.attempt}/{m}"])]  # fmt: skip
            waited = time.monotonic() - began
            if not stopping and (
                len(here) >= self._most or (len(here) >= self._least and waited > self._last_call)
            ):
                break
            if waited > self._timeout and len(here) < self._least:
                raise ValueError(
                    f"after {self._timeout:g} s {len(here)} launchers are there, and --nnodes asks "
                    f"for {self._least} at least (--rdzv-conf join_timeout=SECONDS)"
                )
            time.sleep(min(self.interval, 0.2))
        stay = [m for m in last if m in here]
        members = [self._me, *[m for m in stay + here if m != self._me]]
        members = list(dict.fromkeys(members))[: self._most]
        shares = [int(self._store.get(f"member/{m}")) for m in members]
        self._store.set(f"round/{self._seen}", json.dumps([members, shares, restarts]))
        self._store.add("rounds", 1)
        return True

    # What the others wait for.

    def _next(self, restarts: int, asked: Callable[[], bool]) -> list[int] | None:
        if self._holds and not self._form(restarts, asked):
            return None
        while True:
            self._beats.beat()
            if asked() or self._store.check(["end"]):
                return None
            rounds = self._store.add("rounds", 0)
            if rounds > self._seen:
                self._seen = rounds
                found = Round(*json.loads(self._store.get(f"round/{rounds - 1}")))
                if self._me in found.members:
                    self._round = found
                    return found.shares
            if (gone := self._holder_is_gone()) is not None:
                raise DistNetworkError(gone.words)
            time.sleep(min(self.interval, 0.2))

    def _holder_is_gone(self) -> Failure | None:
        if self._holds or not self._beats.is_lost(self._holder):
            return None
        words = "the launcher that holds the store is gone"
        return Failure("?", 1, words=words, final=True)

    def _said(self, attempt: int) -> Failure | None:
        if not self._store.check([f"failed/{attempt}"]):
            return None
        return Failure(**json.loads(self._store.get(f"failed/{attempt}")))


def _change(words: str) -> Failure:
    return Failure(socket.gethostname(), 1, words=words, machines=True)


def is_here(host: str) -> bool:
    """Whether that is an address of this machine."""
    try:
        found: list[Any] = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, proto, _, address in found:
        with socket.socket(family, kind, proto) as trial:
            try:
                trial.bind(address)
            except OSError:
                continue
            return True
    return False
