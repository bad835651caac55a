"""What runs in a worker process.

Note [Ends of a worker]
- The main process closes its end of the socket: the next read or write here fails, and the worker
  leaves. That is the ordinary way.
- The main process is killed: a thread waits for that and ends this process.
- The worker is killed: the main process sees the end of its socket at once.
- Ctrl-C goes to the whole group; workers ignore it, since the main process ends them.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import sys
import threading
from dataclasses import dataclass

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this is, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: object

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, ...)"


_worker_info = None


def get_worker_info() -> WorkerInfo | None:
    """The WorkerInfo in a worker process, None in the main process.

    It has id, num_workers, seed and dataset (the worker's own copy).

    Example:
        >>> rl.utils.data.get_worker_info() is None
        True
    """
    return _worker_info


@dataclass
class Setup:
    """What a worker needs to know, the same for all of them."""

    dataset: object
    is_iterable: bool
    auto_collation: bool
    collate_fn: object
    drop_last: bool
    worker_init_fn: object
    num_workers: int
    base_seed: int
    progress: object  # a shared tensor: for each worker the batch and the place it is at


def run_forked(setup, containers, worker_id, connection, to_close):
    """The beginning of a worker that was forked."""
    # Objects of the main process stay where they are: touching them would copy their pages.
    gc.freeze()
    containers.borrow()
    for other in to_close:
        other.close()
    _run(setup, worker_id, connection)


def run_spawned(worker_id, connection):
    """The beginning of a worker that was started afresh."""
    try:
        setup = connection.recv()
    except EOFError:
        return
    except Exception as error:
        from rushlight.utils.data._utils.failures import Failure

        connection.send(("broken", Failure(error, f"while DataLoader worker {worker_id} started")))
        return
    _run(setup, worker_id, connection)


def _run(setup, worker_id, connection):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with_parent()
    worker = _Worker(setup, worker_id, connection)
    try:
        worker.loop()
    except (EOFError, ConnectionError):
        pass  # the main process wants no more


def _end_with_parent():
    parent = os.getppid()
    try:
        descriptor = os.pidfd_open(parent)
    except (AttributeError, OSError):
        return
    if os.getppid() != parent:
        os._exit(1)

    def wait():
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True, name="rushlight-parent").start()


class _Worker:
    def __init__(self, setup, worker_id, connection):
        self._setup = setup
        self._id = worker_id
        self._connection = connection
        self._where = f"in DataLoader worker process {worker_id}"
        self._broken = None
        self._fetcher = None
        self._randomness = None
        progress = memoryview(setup.progress.untyped_storage()).cast("q")
        self._progress = progress[2 * worker_id : 2 * worker_id + 2]
        self._begin_process()

    def _begin_process(self):
        global _worker_info
        import rushlight
        from rushlight.utils.data._utils import buffers
        from rushlight.utils.data._utils.failures import Failure

        setup = self._setup
        rushlight.set_num_threads(1)
        seed = setup.base_seed + self._id
        random.seed(seed)
        rushlight.manual_seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)
        buffers.shared = buffers.SharedBuffers()
        _worker_info = WorkerInfo(self._id, setup.num_workers, seed, setup.dataset)
        try:
            if setup.worker_init_fn is not None:
                setup.worker_init_fn(self._id)
        except Exception as error:
            self._broken = Failure(error, self._where)

    def loop(self):
        while True:
            message = self._connection.recv()
            if message[0] == "epoch":
                self._begin_epoch(*message[1:])
            else:
                self._fetch(*message[1:])

    def _begin_epoch(self, serial, seed, done):
        from rushlight.utils.data._utils.failures import Failure
        from rushlight.utils.data._utils.fetch import _DatasetKind
        from rushlight.utils.data._utils.seeding import Randomness

        setup = self._setup
        self._serial = serial
        # A sample is the same whoever makes it; a stream is this worker's own.
        self._randomness = Randomness(seed + (self._id if setup.is_iterable else 0))
        self._randomness.start_batch()
        kind = _DatasetKind.Iterable if setup.is_iterable else _DatasetKind.Map
        self._ended, self._to_skip = False, done
        try:
            self._fetcher = _DatasetKind.create_fetcher(
                kind, setup.dataset, setup.auto_collation, setup.collate_fn, setup.drop_last,
                self._randomness,
            )  # fmt: skip
            self._fetcher.progress = self._progress
        except Exception as error:
            self._broken = Failure(error, self._where)

    def _fetch(self, number, keys, recorded=False):
        from rushlight.utils.data._utils.failures import Failure

        self._progress[0], self._progress[1] = number, -1
        if self._broken is not None:
            self._answer("error", number, self._broken)
            self._broken, self._ended = None, self._setup.is_iterable
            return
        if self._ended:
            self._answer("end", number, None)
            return
        try:
            self._randomness.start_batch()
            if self._to_skip:
                to_skip, self._to_skip = self._to_skip, 0
                self._fetcher.skip(to_skip, keys)
            self._answer("data", number, self._fetched(number, keys, recorded))
        except (EOFError, ConnectionError) as error:
            if self._gone():
                raise
            self._answer("error", number, Failure(error, self._where, self._fetcher.failed_at))
        except Exception as error:
            if isinstance(error, StopIteration) and self._setup.is_iterable:
                self._ended = True
                self._answer("end", number, None)
                return
            self._answer("error", number, Failure(error, self._where, self._fetcher.failed_at))

    def _fetched(self, number, keys, recorded):
        if not recorded:
            return self._fetcher.fetch(number, keys)
        from rushlight.profiler import _workers

        with _workers.recording(self._id, number) as events:
            batch = self._fetcher.fetch(number, keys)
        self._connection.send(("recorded", (os.getpid(), self._id, events)))
        return batch

    def _gone(self):
        """Has the main process closed its end, or is that error the dataset's own?"""
        poll = select.poll()
        poll.register(self._connection.fileno(), 0)
        return bool(poll.poll(0))

    def _answer(self, kind, number, value):
        from rushlight.utils.data._utils.messages import pack_batch

        try:
            data, carrier = pack_batch((kind, self._serial, number, value))
        except Exception as error:
            if kind == "error":
                raise
            from rushlight.utils.data._utils.failures import Failure

            where = f"{self._where}, whose batch cannot be sent to the main process"
            data, carrier = pack_batch(("error", self._serial, number, Failure(error, where)))
        self._connection.send_packed(data, carrier)
