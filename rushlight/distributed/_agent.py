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
from typing import Any

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
    nodes: int
    node_rank: int
    processes: int
    host: str
    port: int
    max_restarts: int
    run_id: str
    role: str
    logs: Logs = field(default_factory=Logs)


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


class Agent:
    """Runs a job on this machine."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.exits: queue.Queue[tuple[int, Rank]] = queue.Queue()  # in the order they happened
        self.asked: int | None = None  # the signal that asked the launcher to end
        self.failed: tuple[Rank, int] | None = None  # the rank that failed first, and its code

    def run(self) -> int:
        """The exit code: of the first rank that failed, of the signal that came, or 0."""
        job = self.job
        if job.nodes == 1:
            os.environ.setdefault(TOKEN_VARIABLE, secrets.token_hex(16))
        store = None
        if job.node_rank == 0:
            store = TCPStore(job.host, job.port, is_master=True, wait_for_workers=False)
            job.port = store.port
        before = {}
        if threading.current_thread() is threading.main_thread():
            signals = (signal.SIGINT, signal.SIGTERM)
            before = {s: signal.signal(s, self._on_signal) for s in signals}
        try:
            for attempt in range(job.max_restarts + 1):
                failed, code = self._attempt(attempt)
                if failed is None or self.asked is not None:
                    break
                if attempt < job.max_restarts:
                    _say(
                        f"rank {failed.number} failed ({_in_words(code)}); all ranks are started "
                        f"again, attempt {attempt + 2} of {job.max_restarts + 1}"
                    )
            if self.asked is not None:
                return 128 + self.asked
            if failed is None:
                return 0
            self.failed = failed, code
            self._explain(failed, code)
            return code if code > 0 else 128 - code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            del store

    def _on_signal(self, number, frame):
        self.asked = number

    def _environment(self, local, attempt):
        job = self.job
        rank = job.node_rank * job.processes + local
        size = job.nodes * job.processes
        names = {
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": size,
            "LOCAL_WORLD_SIZE": job.processes,
            "GROUP_RANK": job.node_rank,
            "GROUP_WORLD_SIZE": job.nodes,
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
        return environment

    def _start(self, local, attempt):
        process = subprocess.Popen(
            self.job.command,
            env=self._environment(local, attempt),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=end_with_parent,
        )
        rank = Rank(self.job.node_rank * self.job.processes + local, process)
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
        """Starts all ranks and waits for them: the first that failed and its code, or None."""
        self.exits = queue.Queue()
        ranks = [self._start(local, attempt) for local in range(self.job.processes)]
        running = len(ranks)
        failed, code = None, 0
        while running and failed is None and self.asked is None:
            try:
                code, rank = self.exits.get(timeout=0.2)
            except queue.Empty:
                continue
            running -= 1
            if code != 0:
                failed = rank
        if failed is not None or self.asked is not None:
            _stop(ranks)
        for rank in ranks:
            for reader in rank.readers:  # a process that a rank left behind may keep them open
                reader.join(1.0)
        return failed, code

    def _explain(self, failed, code):
        host = socket.gethostname()
        _say(
            f"rank {failed.number} on {host} failed first ({_in_words(code)}), and the other "
            f"ranks were stopped. It printed:"
        )
        _Output(sys.stderr).write(b"".join(_last_traceback(list(failed.lines))))


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
