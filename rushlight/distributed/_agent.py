"""The launcher's side of one machine: starts the ranks, watches them, stops them together."""

from __future__ import annotations

import collections
import ctypes
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rushlight.distributed._elastic_machines import ElasticMachines, is_here
from rushlight.distributed._errors import DistError, DistNetworkError
from rushlight.distributed._machines import Alone, Failure, Machines
from rushlight.distributed._stores import TOKEN_VARIABLE, TCPStore

_PR_SET_PDEATHSIG = 1
_GRACE = 3.0  # seconds between asking ranks to end and ending them
_KEPT_LINES = 400  # of what a rank printed to stderr


@dataclass
class Logs:
    """Where goes what the ranks print: to the console, to files, or to both."""

    folder: str | None = None
    redirects: dict[int | None, int] = field(default_factory=dict)
    tee: dict[int | None, int] = field(default_factory=dict)
    shown: list[int] = field(default_factory=list)  # empty: all of them

    def open(self, job: Job, attempt: int, local: int, stream: int) -> tuple[Any, bool, bytes]:
        """(a file or None, whether the console shows it too, what stands before its lines).
        ``stream``: 1 or 2."""
        to_file = self.redirects.get(local, self.redirects.get(None, 0)) & stream
        to_both = self.tee.get(local, self.tee.get(None, 0)) & stream
        shows = (bool(to_both) or not to_file) and (not self.shown or local in self.shown)
        prefix = f"[{job.role}{local}]:".encode() if to_both else b""
        if not to_file and not to_both:
            return None, shows, prefix
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="rushlight_logs_")
            _say(f"what the ranks print is in {self.folder}")
        place = os.path.join(self.folder, job.run_id, f"attempt_{attempt}", str(local))
        os.makedirs(place, exist_ok=True)
        name = "stdout.log" if stream == 1 else "stderr.log"
        return open(os.path.join(place, name), "wb"), shows, prefix


@dataclass
class Job:
    """What to run, and where."""

    command: list[str]
    nodes: int  # at most
    processes: int
    host: str
    port: int
    node_rank: int | None  # None: as the launchers come
    max_restarts: int
    run_id: str
    role: str
    monitor_interval: float = 0.1  # seconds between two looks at what other machines say
    join_timeout: float = 600.0
    least_nodes: int | None = None  # None: all of them
    logs: Logs = field(default_factory=Logs)
    last_call: float = 30.0  # how long more machines are waited for when enough are there
    max_lost_ranks: int = 0  # that may fail here while the others go on
    lost: float = 15.0  # elastic: after so long without a sign of life a launcher is gone

    @property
    def is_elastic(self) -> bool:
        """Whether launchers may come and go."""
        fewer = self.least_nodes is not None and self.least_nodes < self.nodes
        return self.nodes > 1 and (fewer or self.node_rank is None)


@dataclass
class Rank:
    """A process that was started."""

    number: int
    process: Any  # a subprocess.Popen, or what has its methods
    lines: collections.deque[bytes] = field(
        default_factory=lambda: collections.deque(maxlen=_KEPT_LINES)
    )
    readers: list[threading.Thread] = field(default_factory=list)

    def words(self) -> str:
        """What it printed last, from its last traceback on if there is one."""
        return b"".join(_last_traceback(list(self.lines))).decode(errors="replace").rstrip()


def end_with_parent():
    # A launcher that is killed cannot stop its ranks; the kernel can.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class _Asked(Exception):
    """The launcher was asked to end while it waited in the core."""


class Agent:
    """Runs a job on this machine."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.exits: queue.Queue[tuple[int, Rank]] = queue.Queue()  # in the order they happened
        self.asked: int | None = None  # the signal that asked the launcher to end
        self._connects = False  # a wait that only an exception ends
        self.failed: Failure | None = None  # what failed first, on any machine
        self.machines: Alone | ElasticMachines = Alone(job.processes)
        self.shares = [job.processes]  # processes by machine

    def run(self) -> int:
        """The exit code: of the first rank that failed, of the signal that came, or 0."""
        job = self.job
        if job.nodes == 1:
            os.environ.setdefault(TOKEN_VARIABLE, secrets.token_hex(16))
        before = {}
        if threading.current_thread() is threading.main_thread():
            signals = (signal.SIGINT, signal.SIGTERM)
            before = {s: signal.signal(s, self._on_signal) for s in signals}
        store = None
        try:
            store = self._hold_store()
            if job.nodes > 1 and not self._meet(store):
                return 0 if self.asked is None else 128 + self.asked
            return self._attempts()
        except _Asked:
            return 128 + (self.asked or 0)
        except DistError as error:
            if job.nodes == 1:
                raise
            if type(self.machines) is Alone:
                _say(f"the machines have not met: {error}")
            else:
                _say(f"the machines have lost each other, and the ranks here were stopped: {error}")
            return 1
        finally:
            self.machines.leave()
            for number, handler in before.items():
                signal.signal(number, handler)
            del store

    def _hold_store(self):
        """The store, if this launcher is the one that holds it."""
        job = self.job
        trial = job.node_rank is None  # of several at the named address, the first one holds it
        if job.node_rank != 0 and not (trial and is_here(job.host)):
            return None
        try:
            store = TCPStore(job.host, job.port, is_master=True, wait_for_workers=False)
        except DistNetworkError:
            if trial:
                return None
            raise
        job.port = store.port
        return store

    def _meet(self, held):
        """Whether there is something to do."""
        job = self.job
        store = held or self._connect()
        if store is None:
            return False
        more = (job.processes, job.max_restarts, job.monitor_interval, job.join_timeout)
        if job.is_elastic:
            counts = (job.least_nodes or job.nodes, job.nodes)
            self.machines = ElasticMachines(
                store, job.run_id, held is not None, counts, *more, job.last_call, job.lost
            )
        else:
            self.machines = Machines(store, job.run_id, job.node_rank, job.nodes, *more)
        return self._take(self.machines.join(lambda: self.asked is not None))

    def _connect(self):
        """The store that another launcher holds; None when this one was asked to end."""
        self._connects = True
        if self.asked is not None:
            return None
        limit = timedelta(seconds=self.job.join_timeout)
        store = TCPStore(self.job.host, self.job.port, timeout=limit)
        self._connects = False
        return store

    def _take(self, shares):
        if shares is not None:
            self.shares = shares
        return shares is not None

    def _attempts(self):
        """Starts the ranks as often as is allowed, all machines together."""
        while True:
            attempt, restarts = self.machines.attempt, self.machines.restarts
            failure = self._attempt(attempt) if self.asked is None else self._interrupted(attempt)
            if failure is None:
                return 0
            last = failure.final or (not failure.machines and restarts >= self.job.max_restarts)
            if last or self.asked is not None:
                break
            self._announce(failure, restarts)
            if not self._take(self.machines.regroup(attempt, lambda: self.asked is not None)):
                break
        if self.asked is not None:
            return 128 + self.asked
        if failure.number >= 0:
            self.failed = failure
            self._explain(failure)
        else:
            _say(f"{failure.words} (on {failure.host}), and the ranks here were stopped")
        return failure.code if failure.code > 0 else 128 - failure.code

    def _announce(self, failure, restarts):
        if failure.machines:
            _say(f"{failure.words}; all ranks are started again with the machines that are there")
            return
        _say(
            f"rank {failure.number} on {failure.host} failed ({_in_words(failure.code)}); all "
            f"ranks are started again, attempt {restarts + 2} of {self.job.max_restarts + 1}"
        )

    def _on_signal(self, number, frame):
        self.asked = number
        if self._connects:
            raise _Asked

    def _number(self, local):
        return sum(self.shares[: self.machines.place]) + local

    def _environment(self, local, attempt):
        job = self.job
        rank = self._number(local)
        size = sum(self.shares)
        names = {
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": size,
            "LOCAL_WORLD_SIZE": job.processes,
            "GROUP_RANK": self.machines.place,
            "GROUP_WORLD_SIZE": len(self.shares),
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": size,
            "ROLE_NAME": job.role,
            "MASTER_ADDR": job.host,
            "MASTER_PORT": job.port,
            "TORCHELASTIC_RESTART_COUNT": attempt,
            "TORCHELASTIC_MAX_RESTARTS": job.max_restarts,
            "TORCHELASTIC_RUN_ID": job.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": True,
        }
        environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
        if job.processes > 1:  # the ranks share the cores
            share = max(1, len(os.sched_getaffinity(0)) // job.processes)
            environment.setdefault("OMP_NUM_THREADS", str(share))
        if job.nodes == 1:  # ranks of one machine share memory: MPICH need not open ports
            environment.setdefault("UCX_TLS", "self,sm")
        return environment

    def _start(self, local, attempt):
        process = subprocess.Popen(
            self.job.command,
            env=self._environment(local, attempt),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=end_with_parent,
        )
        rank = Rank(self._number(local), process)
        outputs = [
            _Output(sys.stdout, None, *self.job.logs.open(self.job, attempt, local, 1)),
            _Output(sys.stderr, rank.lines, *self.job.logs.open(self.job, attempt, local, 2)),
        ]
        rank.readers = [
            threading.Thread(target=_pass_on, args=args, daemon=True)
            for args in zip((process.stdout, process.stderr), outputs, strict=True)
        ]
        for reader in rank.readers:
            reader.start()
        threading.Thread(target=self._watch, args=(rank,), daemon=True).start()
        return rank

    def _watch(self, rank):
        self.exits.put((rank.process.wait(), rank))

    def _attempt(self, attempt):
        """Starts all ranks of this machine and waits for those of all: what failed, or None."""
        self.exits = queue.Queue()
        ranks: list[Rank] = []
        failure = None
        try:
            for local in range(self.job.processes):
                ranks.append(self._start(local, attempt))
            failure = self._wait(attempt, len(ranks))
        finally:  # they have ended by themselves, or have to
            _stop(ranks)
        for rank in ranks:
            _read_to_end(rank)
        return failure

    def _wait(self, attempt, running):
        lost = 0
        while True:
            if self.asked is not None:
                return self._interrupted(attempt)
            if not running and self.machines.all_are("done", attempt):
                return None
            try:
                code, rank = self.exits.get(timeout=self.machines.interval)
            except queue.Empty:
                failure = self.machines.failure(attempt)
                if failure is not None:
                    return failure
                continue
            running -= 1
            if self.asked is not None:
                return self._interrupted(attempt)  # a Ctrl-C reaches the ranks, too
            if code != 0 and running and lost < self.job.max_lost_ranks:
                lost += 1
                _say(f"rank {rank.number} is lost ({_in_words(code)}), and the others go on")
            elif code != 0:
                return self.machines.say_failed(attempt, self._failure_of(rank, code))

    def _interrupted(self, attempt):
        words = f"a launcher got {signal.Signals(self.asked).name}"
        failure = Failure(socket.gethostname(), -self.asked, words=words, final=True)
        return self.machines.say_failed(attempt, failure)

    def _failure_of(self, rank, code):
        _read_to_end(rank)
        local = rank.number - self._number(0)
        return Failure(
            socket.gethostname(), code, rank.number, local, rank.process.pid, rank.words()
        )

    def _explain(self, failure):
        _say(
            f"rank {failure.number} on {failure.host} failed first ({_in_words(failure.code)}), "
            f"and the other ranks were stopped. It printed:"
        )
        _Output(sys.stderr).write(failure.words.encode() + b"\n")


def _read_to_end(rank):
    for reader in rank.readers:  # a process that a rank left behind may keep them open
        reader.join(1.0)


def _say(text):
    print(f"rushlight.distributed.run: {text}", file=sys.stderr, flush=True)


def _in_words(code):
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _last_traceback(lines):
    """The end of what a rank printed, from its last traceback on if there is one."""
    for i in range(len(lines) - 1, -1, -1):
        if lines[i].startswith(b"Traceback (most recent call last)"):
            return lines[i:]
    return lines[-20:]


def _pass_on(source: Any, to: _Output) -> None:
    """Shows what a rank prints, whole lines at once, so that those of two ranks do not mix."""
    rest = b""
    while part := os.read(source.fileno(), 1 << 16):
        text = rest + part
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1  # progress bars end in a return
        lines, rest = text[:end], text[end:]
        to.write(lines)
    to.write(rest)
    if to.file is not None:
        to.file.close()


_writing = threading.Lock()


@dataclass
class _Output:
    """Where one stream of a rank goes."""

    console: Any
    kept: collections.deque[bytes] | None = None  # the last lines
    file: Any = None
    shows: bool = True
    prefix: bytes = b""

    def write(self, lines: bytes) -> None:
        """Writes whole lines."""
        if self.kept is not None:
            self.kept.extend(lines.splitlines(keepends=True))
        if self.file is not None:
            self.file.write(lines)
            self.file.flush()
        if not self.shows:
            return
        if self.prefix:
            lines = b"".join(self.prefix + line for line in lines.splitlines(keepends=True))
        with _writing:
            self.console.buffer.write(lines)
            self.console.buffer.flush()


def _stop(ranks):
    for rank in ranks:
        if rank.process.poll() is None:
            rank.process.terminate()
            if _is_stopped(rank.process.pid):
                rank.process.kill()  # a stopped process does not see the request
    deadline = time.monotonic() + _GRACE
    for rank in ranks:
        try:
            rank.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.process.kill()
            rank.process.wait()


def _is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
