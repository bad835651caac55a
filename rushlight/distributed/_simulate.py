"""simulate: n ranks as threads of one process, for tests, teaching and debugging."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from rushlight.distributed import _errors, _world
from rushlight.distributed._process_groups import begin
from rushlight.distributed._stores import HashStore, core
from rushlight.distributed.rendezvous import DEFAULT_TIMEOUT

__all__ = ["simulate"]

_Result = TypeVar("_Result")
_PATIENCE = 5.0  # seconds for ranks that compute, when the simulation is left


class _Ranks:
    """The threads, what they returned and what they raised."""

    def __init__(self, size: int) -> None:
        self.results: list[Any] = [None] * size
        self.errors: list[tuple[int, BaseException]] = []  # in the order they happened
        self.lock = threading.Lock()
        self.worlds: list[_world.World] = [_world.World() for _ in range(size)]

    def failed(self, rank: int, error: BaseException) -> None:
        with self.lock:
            self.errors.append((rank, error))
        self.end(f"rank {rank} raised {type(error).__name__}: {error}")

    def end(self, why: str) -> None:
        """Lets what the ranks wait for raise."""
        for own in self.worlds:
            for member in list(own.members.values()):
                member.group._core._fail(why)
            if own.rpc is not None:
                own.rpc.fail(why)

    def first_error(self) -> tuple[int, BaseException]:
        """The one that is no echo of another rank's."""
        echo = (_errors.DistBackendError, _errors.DistStoreError)
        return next((e for e in self.errors if not isinstance(e[1], echo)), self.errors[0])


def _caller(fn, args, kwargs):
    """fn takes its rank first, unless it has no place for it."""
    try:
        signature = inspect.signature(fn)
        signature.bind(0, *args, **kwargs)
    except (TypeError, ValueError):
        return lambda rank: fn(*args, **kwargs)
    return lambda rank: fn(rank, *args, **kwargs)


def simulate(
    n: int,
    fn: Callable[..., _Result],
    *args: Any,
    timeout: timedelta = DEFAULT_TIMEOUT,
    **kwargs: Any,
) -> list[_Result]:
    """Calls ``fn(rank, *args, **kwargs)`` on ``n`` threads, each of which is a rank of one process
    group, and returns what they returned, in the order of ranks.

    A function that takes no rank asks ``get_rank()``. Inside, ``init_process_group`` finds the
    group there already. Each rank draws random numbers by itself, from where the process stands
    when it begins; what else a process has once, such as environment variables and the current
    folder, the ranks share. When a rank raises, the others' collectives raise too, and its error
    is raised here.

    Arguments:
        n: how many ranks.
        fn: what each of them calls.
        args, kwargs: more arguments of `fn`.
        timeout: how long collectives wait for other ranks.

    Returns:
        list: what `fn` returned on each rank.

    Example:
        >>> from datetime import timedelta
        >>> from rushlight import distributed as dist
        >>> def total(rank, factor):
        ...     x = rl.tensor([factor * rank])
        ...     dist.all_reduce(x)
        ...     return x.item()
        >>> dist.simulate(3, total, 10, timeout=timedelta(seconds=60))
        [30, 30, 30]
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"simulate: the number of ranks must be at least 1, got {n!r}")
    if _world.own_world() is not None:
        raise RuntimeError("simulate: a simulated rank cannot simulate others")
    store, hub, ranks = HashStore(), core.Hub(), _Ranks(n)
    call = _caller(fn, args, kwargs)

    def run(rank: int) -> None:
        own, numbers = ranks.worlds[rank], core.RankGenerator()
        own.hub = hub
        _world.become(own)
        numbers.use()
        try:
            begin(store, rank, n, timeout, "gloo")
            ranks.results[rank] = call(rank)
        except BaseException as error:
            own.say_raised(error)
            ranks.failed(rank, error)
        finally:
            own.shut_down()
            _world.become(None)
            numbers.leave()

    threads = [
        threading.Thread(target=run, args=(r,), name=f"rank {r}", daemon=True) for r in range(n)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:  # Ctrl-C: the ranks' collectives end, and so do the ranks
        ranks.end(f"simulate was left by {type(error).__name__}")
        deadline = time.monotonic() + _PATIENCE
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        raise
    if ranks.errors:
        rank, error = ranks.first_error()
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"raised by rank {rank} of {n} simulated ones")
        raise error
    return ranks.results
