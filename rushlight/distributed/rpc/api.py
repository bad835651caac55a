"""init_rpc, the calls, shutdown."""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight.distributed import _world
from rushlight.distributed._errors import DistStoreError
from rushlight.distributed._stores import PrefixStore
from rushlight.distributed._world import world
from rushlight.distributed.rendezvous import rendezvous
from rushlight.distributed.rpc._rref import RRef, current_worker
from rushlight.distributed.rpc._worker import Worker, WorkerInfo
from rushlight.distributed.rpc.options import (
    UNSET_RPC_TIMEOUT,
    BackendType,
    RpcBackendOptions,
    TensorPipeRpcBackendOptions,
)
from rushlight.futures import Future

__all__ = [
    "get_worker_info",
    "init_rpc",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

_START = timedelta(minutes=5)  # for all workers to come


def _meet(options, rank, world_size):
    """(store, rank, number of workers)."""
    own = _world.own_world()
    if own is not None or (
        world.default is not None and options.init_method == "env://" and world_size in (None, -1)
    ):
        return world.store, world.default.rank(), world.default.size()
    size = -1 if world_size is None else world_size
    place = (options.init_method, rank, size)
    if place not in world.rpc_stores:  # worker 0 listens at one port once, however often it leaves
        world.rpc_stores[place] = next(rendezvous(*place, timeout=_START))
    return world.rpc_stores[place]


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Makes this process a worker that others call by its name; waits until all have come.

    Ray carries the calls. Worker 0 starts it on this machine, unless the process is connected to
    Ray or RAY_ADDRESS names a cluster, and the others join. Simulated ranks need no Ray.
    """
    if world.rpc is not None:
        raise RuntimeError("rpc.init_rpc: this process is a worker already; call shutdown() first")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_:.-]{1,128}", name):
        raise ValueError(
            "rpc.init_rpc: a worker's name has 1 to 128 letters, digits and signs of _:.-, "
            f"got {name!r}"
        )
    if backend is not None and backend is not BackendType.TENSORPIPE:
        raise RuntimeError(f"rpc.init_rpc: no backend {backend!r}")
    options: Any = rpc_backend_options
    if options is None:
        options = TensorPipeRpcBackendOptions()
    elif not isinstance(options, TensorPipeRpcBackendOptions):
        options = TensorPipeRpcBackendOptions(
            rpc_timeout=options.rpc_timeout, init_method=options.init_method
        )
    base, rank, size = _meet(options, rank, world_size)
    room = f"rpc/{world.rpc_times}"
    world.rpc_times += 1
    store = PrefixStore(room, base)
    store.set(f"name/{rank}", name)
    names = [store.get(f"name/{i}").decode() for i in range(size)]
    if len(set(names)) != size:
        raise RuntimeError(f"rpc.init_rpc: two workers have one name: {', '.join(names)}")
    workers = [WorkerInfo(each, i) for i, each in enumerate(names)]
    worker = Worker(workers[rank], workers, options, store)
    try:
        _connect(worker, room)
        world.rpc = worker  # others call as soon as all are ready
        worker.transport.start()
        _barrier(worker, "ready", _START)
    except BaseException:
        world.rpc = None
        if worker.transport is not None:
            worker.transport.close()
        worker.housekeeper.end()
        raise


def _connect(worker, room):
    if _world.own_world() is not None:
        from rushlight.distributed.rpc._thread_transport import ThreadTransport

        worker.transport = ThreadTransport(worker, f"{id(world.hub)}/{room}")
        return
    from rushlight.distributed.rpc._ray_transport import RayTransport

    worker.transport = RayTransport(worker, worker.store)
    _barrier(worker, "mailboxes", _START)


def _barrier(worker, name, limit):
    """Waits until all workers have come here."""
    worker.store.set(f"{name}/{worker.me.id}", b"1")
    _wait(worker, [f"{name}/{i}" for i in range(len(worker.workers))], limit)


def _wait(worker, keys, limit):
    """Waits for keys of the store, unless the simulation has failed."""
    deadline = time.monotonic() + limit.total_seconds()
    while worker.failure is None:
        try:
            left = max(0.001, min(0.5, deadline - time.monotonic()))
            return worker.store.wait(keys, timedelta(seconds=left))
        except DistStoreError:
            if time.monotonic() > deadline:
                raise
    raise RuntimeError(f"rpc.shutdown: {worker.failure}")


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """The worker of that name; this one, without a name."""
    worker = current_worker("rpc.get_worker_info")
    return worker.me if worker_name is None else worker.find(worker_name)


def _require_initialized(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises before init_rpc was called; libraries decorate theirs with it."""

    @functools.wraps(func)
    def run(*args, **kwargs):
        current_worker(func.__name__)
        return func(*args, **kwargs)

    return run


def _checked(what, func, args, kwargs):
    if not callable(func):
        raise TypeError(f"rpc.{what}: func must be callable, got {type(func).__name__}")
    return func, tuple(args or ()), dict(kwargs or {})


def rpc_async(
    to: str | int | WorkerInfo, func: Callable[..., Any], args: Any = None,
    kwargs: dict[str, Any] | None = None, timeout: float = UNSET_RPC_TIMEOUT,
) -> Future:  # fmt: skip
    """Calls ``func(*args, **kwargs)`` on a worker; returns a Future of its result. An exception
    there is raised by ``wait``, with the traceback of the other worker in its text."""
    worker = current_worker("rpc.rpc_async")
    payload = _checked("rpc_async", func, args, kwargs)
    return worker.call(worker.find(to), "call", payload, timeout)


def rpc_sync(
    to: str | int | WorkerInfo, func: Callable[..., Any], args: Any = None,
    kwargs: dict[str, Any] | None = None, timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:  # fmt: skip
    """The same, and waits for the result."""
    worker = current_worker("rpc.rpc_sync")
    payload = _checked("rpc_sync", func, args, kwargs)
    return worker.call(worker.find(to), "call", payload, timeout).wait()


def remote(
    to: str | int | WorkerInfo, func: Callable[..., Any], args: Any = None,
    kwargs: dict[str, Any] | None = None, timeout: float = UNSET_RPC_TIMEOUT,
) -> RRef:  # fmt: skip
    """Calls ``func(*args, **kwargs)`` on a worker, where the result stays; returns an RRef of it at
    once. An exception there is raised by whoever asks for the value."""
    worker = current_worker("rpc.remote")
    owner = worker.find(to)
    payload = _checked("remote", func, args, kwargs)
    number, copy = worker.new_id(), worker.new_id()
    if owner == worker.me:
        worker.owned.add(number, copy)
    else:
        worker.tell(owner.id, "add copy", (number, copy))
    creation = worker.call(owner, "remote", (number, *payload), timeout)
    return RRef._made(worker, owner.id, number, copy, creation)


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Leaves the workers. ``graceful`` waits until all have called it and no call is under way,
    at most ``timeout`` seconds (0: no limit)."""
    worker = current_worker("rpc.shutdown")
    limit = timedelta(seconds=timeout) if timeout > 0 else timedelta(days=30)
    is_last = worker.me.id == 0  # it holds the store, and Ray where it started it
    try:
        if graceful:
            _wait_for_all(worker, limit)
            if is_last:
                _wait(worker, [f"left/{w.id}" for w in worker.workers[1:]], limit)
    finally:
        world.rpc = None
        worker.stop()
    if graceful and not is_last:
        worker.store.set(f"left/{worker.me.id}", b"1")


def _wait_for_all(worker, limit):
    """Rounds in which each worker says how many calls it has sent and got back: over when nothing
    was under way anywhere, and nothing new came in a whole round."""
    before = None
    size = len(worker.workers)
    for number in range(1 << 30):
        worker.housekeeper.do_what_was_left()
        if not worker.idle():
            time.sleep(0.005)
        here = json.dumps([*worker.counts, worker.running])
        worker.store.set(f"end/{number}/{worker.me.id}", here)
        _wait(worker, [f"end/{number}/{i}" for i in range(size)], limit)
        all_of_them = [json.loads(worker.store.get(f"end/{number}/{i}")) for i in range(size)]
        is_quiet = all(sent == back and not running for sent, back, running in all_of_them)
        if is_quiet and all_of_them == before:
            break
        before = all_of_them
