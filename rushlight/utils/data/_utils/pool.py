"""The worker processes of one loader, seen from the main process."""

import contextlib
import os
import select
import signal
import socket
import sys
import time
import types
from multiprocessing import resource_tracker

import rushlight
from rushlight.multiprocessing import _channels, _contexts
from rushlight.utils.data._utils import by_value, failures, messages, packing, worker

# Main ends of all workers' sockets. A forked worker closes its copies: otherwise the end of a
# socket would not be seen while a sibling lives.
_main_ends = set()


class _Remote:
    """One worker: its process, its socket, and what it was asked for."""

    def __init__(self, process, connection):
        self.process = process
        self.connection = connection
        self.outbox = messages.Outbox(connection)
        self.asked = {}  # number of a batch -> its keys
        self.active = True  # a stream that has ended is not asked any more

    def hang_up(self):
        """Closes the socket, also for processes that have inherited a copy of it."""
        end = self.connection._socket()
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end is gone
        finally:
            end.detach()
        self.connection.close()


class WorkerPool:
    """Starts workers, asks them for batches and brings in their answers."""

    def __init__(self, loader, num_workers, base_seed):
        self.size = num_workers
        self._owner = os.getpid()
        self._progress = rushlight.full((num_workers, 2), -1, dtype=rushlight.int64)
        self._progress.share_memory_()
        self._poll = select.poll()
        self._workers = []
        self._by_descriptor = {}
        self._closed = False
        self._failure = None  # what ended it, for those who ask again
        setup = worker.Setup(
            dataset=loader.dataset,
            is_iterable=loader._is_iterable,
            auto_collation=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            worker_init_fn=loader.worker_init_fn,
            num_workers=num_workers,
            base_seed=base_seed,
            progress=self._progress,
        )
        context = loader.multiprocessing_context
        method = None if context is None else context.get_start_method()
        try:
            context = _contexts.get_context(method)
            forks = context.get_start_method() == "fork"
            containers = packing.Containers(setup, forks)
            (self._fork if forks else self._spawn)(setup, containers, context)
        except BaseException:
            self.close(hurry=True)
            raise

    def _fork(self, setup, containers, context):
        for worker_id in range(self.size):
            own, other = _channels.pipe()
            args = (setup, containers, worker_id, other, [*_main_ends, own])
            self._add(own, other, context.Process(target=worker.run_forked, args=args))

    def _spawn(self, setup, containers, context):
        with containers:
            pack, hide_main = _packer(setup)
        with _main_is_hidden(hide_main):
            for worker_id in range(self.size):
                own, other = _channels.pipe()
                args = (worker_id, other)
                self._add(own, other, context.Process(target=worker.run_spawned, args=args))
        # Once all of them are on their way: each takes its time to get there.
        for remote in self._workers:
            with containers:
                message = pack(setup)
            try:
                remote.connection.send_packed(*message)
            except (BrokenPipeError, ConnectionResetError):
                self._report_death(remote)

    def _add(self, own, other, process):
        process.daemon = True
        with _interrupts_wait(process):
            try:
                process.start()
            except BaseException:
                own.close()
                raise
            finally:
                other.close()
            _main_ends.add(own)
            remote = _Remote(process, own)
            self._workers.append(remote)
            self._by_descriptor[own.fileno()] = remote
            self._poll.register(own.fileno(), select.POLLIN)

    def __getitem__(self, worker_id):
        return self._workers[worker_id]

    def begin_epoch(self, serial, seed, done):
        """done: how many batches of its stream each worker has to pass over."""
        self._check_open()
        for remote, count in zip(self._workers, done, strict=True):
            remote.active = True
            remote.asked.clear()
            remote.outbox.post(("epoch", serial, seed, count))

    def ask(self, worker_id, number, keys):
        self._check_open()
        remote = self._workers[worker_id]
        remote.asked[number] = keys
        remote.outbox.post(("fetch", number, keys, bool(_profiled_by())))

    def active(self):
        return [i for i, remote in enumerate(self._workers) if remote.active]

    def answers(self, timeout):
        """(worker, message) of those that have answered; none when the time is over. Raises when
        a worker is gone."""
        self._check_open()
        deadline = None if not timeout else time.monotonic() + timeout
        while True:
            wait = None
            for remote in self._workers:
                if not remote.outbox.flush():
                    wait = 5  # milliseconds, until its socket takes more
            if deadline is not None:
                left = max(0, (deadline - time.monotonic()) * 1000)
                wait = left if wait is None else min(wait, left)
            ready = self._poll.poll(wait)
            if ready:
                read = [self._read(self._by_descriptor[fd]) for fd, _ in ready]
                if answers := [found for found in read if found is not None]:
                    return answers
            if deadline is not None and time.monotonic() >= deadline:
                return []

    def _read(self, remote):
        """(worker, message), or None where the message was for a profile."""
        try:
            message = remote.connection.recv()
        except (EOFError, OSError):
            self._report_death(remote)
        if message[0] == "broken":
            self._fail(message[1].exception)
        if message[0] == "recorded":
            for record in _profiled_by():
                record(message[1])
            return None
        return self._workers.index(remote), message

    def _check_open(self):
        if self._failure is not None:
            raise self._failure()
        if self._closed:
            raise RuntimeError("DataLoader: the workers of this iterator were stopped")

    def _fail(self, failure):
        """Ends all workers, and raises what failure() makes, now and whenever it is asked again."""
        if not self._closed:  # else the end is what somebody wanted
            self._failure = failure
            self.close(hurry=True)
        self._check_open()

    def _report_death(self, remote):
        text = "" if self._closed else self._death(remote)
        self._fail(lambda: RuntimeError(text))

    def _death(self, remote):
        """What happened to a worker that is gone, and to the others that are."""
        remote.process.join(2)
        gone = [r for r in self._workers if r is remote or not r.process.is_alive()]
        texts = [
            failures.death_message(
                r.process.pid,
                r.process.exitcode,
                f"{self._doing(r)}; it was worker {self._workers.index(r)} of {self.size}",
            )
            for r in sorted(gone, key=lambda r: r is not remote)
        ]
        return " ".join(dict.fromkeys(texts))

    @property
    def closed(self):
        return self._closed

    def lost(self):
        """What happened to a worker that is gone, or None. Called between passes."""
        for remote in self._workers:
            if not remote.process.is_alive():
                return self._death(remote)
        return None

    def _doing(self, remote):
        """Which sample the worker was at, as it wrote before it made it."""
        number, place = self._progress[self._workers.index(remote)].tolist()
        keys = remote.asked.get(number)
        if keys is None:
            return ""
        if isinstance(keys, list | tuple) and 0 <= place < len(keys) and keys[place] is not None:
            return f" while loading sample {keys[place]!r} (batch {number})"
        if not isinstance(keys, list | tuple):
            return f" while loading sample {keys!r}"
        return f" while making batch {number}"

    def close(self, hurry=False):
        """Ends all workers: idle ones leave by themselves, others are stopped."""
        # A process that was forked meanwhile has copies of all this; the workers are not its own.
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        for remote in self._workers:
            _main_ends.discard(remote.connection)
            remote.hang_up()
        processes = [remote.process for remote in self._workers]
        try:
            _join(processes, 0.1 if hurry else 0.5)
            for process in processes:
                if process.is_alive():
                    process.terminate()
            _join(processes, 0.5)
        finally:  # also when Ctrl-C comes meanwhile
            for process in processes:
                if process.is_alive():
                    process.kill()
            _join(processes, 0.5)
            for process in processes:
                with contextlib.suppress(ValueError):  # it would not die
                    process.close()  # its descriptors: an exception's frames may keep the object


def _profiled_by():
    """Those who want to know what workers do; the profiler is not loaded for that."""
    profiler = sys.modules.get("rushlight.profiler._workers")
    return () if profiler is None else profiler.recorders


def _join(processes, seconds):
    deadline = time.monotonic() + seconds
    for process in processes:
        process.join(max(0, deadline - time.monotonic()))


@contextlib.contextmanager
def _interrupts_wait(process):
    """While a worker is started: Ctrl-C is for the main process. A worker begins with the signal
    held back, and ignores it when it has come so far."""
    if process._start_method == "forkserver":  # whose children are not ours to begin
        yield
        return
    if process._start_method == "spawn":
        resource_tracker.ensure_running()  # which lets the signal through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _packer(setup):
    """How to pickle a Setup for a fresh process, and whether that needs no main script there."""
    try:
        by_value.dumps(setup)[1].cancel()
        return by_value.dumps, True
    except Exception as problem:
        try:
            _channels.pack(setup)[1].cancel()
            return _channels.pack, False
        except Exception:
            raise problem from None


class _main_is_hidden:
    """While processes are started: hides the main module, whose objects go by value.

    The standard module would run the main script again in each new process.
    """

    def __init__(self, hide):
        self._hide = hide

    def __enter__(self):
        self._main = sys.modules["__main__"]
        if self._hide:
            empty = types.ModuleType("__main__")
            empty.__spec__ = None
            sys.modules["__main__"] = empty

    def __exit__(self, *_):
        sys.modules["__main__"] = self._main
