"""How processes find each other: a URL becomes a store, a rank and a number of ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

from rushlight.distributed._schedulers import variables_of_scheduler
from rushlight.distributed._stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

DEFAULT_TIMEOUT = timedelta(minutes=30)

_handlers: dict[str, Callable[..., Iterator[tuple[Any, int, int]]]] = {}


def register_rendezvous_handler(
    scheme: str, handler: Callable[..., Iterator[tuple[Any, int, int]]]
) -> None:
    """Lets ``handler(url, timeout)`` answer for URLs that begin with ``scheme://``. It yields
    ``(store, rank, world_size)``.

    Arguments:
        scheme: what stands before ``://``.
        handler: a generator function.

    Raises:
        RuntimeError: the scheme has a handler already.

    Example:
        >>> import uuid
        >>> from rushlight import distributed as dist
        >>> def alone(url, timeout=None):
        ...     yield dist.HashStore(), 0, 1
        >>> scheme = f"alone-{uuid.uuid4().hex}"  # a name that nobody else has taken
        >>> dist.register_rendezvous_handler(scheme, alone)
        >>> store, rank, world_size = next(dist.rendezvous(f"{scheme}://"))
        >>> rank, world_size
        (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, timeout: timedelta = DEFAULT_TIMEOUT
) -> Iterator[tuple[Store, int, int]]:
    """Yields ``(store, rank, world_size)`` for env://, tcp://host:port and file:///path.

    Arguments:
        url: how the processes find each other; its query may name rank and world_size.
        rank: the number of this process; -1 where the URL or the environment says it.
        world_size: the number of processes; -1 where the URL or the environment says it.
        timeout: how long the store waits for others.

    Returns:
        an iterator, whose first item is the store, the rank and the number of ranks.

    Example:
        >>> import os, tempfile
        >>> from rushlight import distributed as dist
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = os.path.join(folder.name, "meet")
        >>> store, rank, size = next(dist.rendezvous(f"file://{path}", rank=0, world_size=1))
        >>> rank, size, store.path == path
        (0, 1, True)
        >>> folder.cleanup()
    """
    parts = urlparse(url)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    if rank != -1 or world_size != -1:
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if rank != -1:
            asked["rank"] = str(rank)
        if world_size != -1:
            asked["world_size"] = str(world_size)
        query = "&".join(f"{key}={value}" for key, value in asked.items())
        url = parts._replace(query=query).geturl()
    return _handlers[parts.scheme](url, timeout=timeout)


def _asked(url, scheme, needed):
    """The URL's parts, and its rank and world_size; what is needed and not there is an error."""
    parts = urlparse(url)
    query = {key: int(values[0]) for key, values in parse_qs(parts.query).items()}
    for name in needed:
        if name not in query:
            raise ValueError(
                f"init_process_group: {scheme}:// needs {name}, and neither the call nor the URL "
                "says it"
            )
    return parts, query


def _check_rank(rank, world_size):
    """Before anybody waits for a rank that does not exist."""
    if not 0 <= rank < world_size:
        raise ValueError(f"init_process_group: rank must be from 0 to {world_size - 1}, got {rank}")


def _from_tcp(url, timeout=DEFAULT_TIMEOUT):
    parts, query = _asked(url, "tcp", ("rank", "world_size"))
    if not parts.port:
        raise ValueError(f"init_process_group: tcp:// needs a port, got {url}")
    rank, world_size = query["rank"], query["world_size"]
    _check_rank(rank, world_size)
    store = TCPStore(parts.hostname or "", parts.port, world_size, rank == 0, timeout)
    yield store, rank, world_size


def _from_file(url, timeout=DEFAULT_TIMEOUT):
    parts, query = _asked(url, "file", ("rank", "world_size"))
    if not parts.path:
        raise ValueError(f"init_process_group: file:// needs a path, got {url}")
    _check_rank(query["rank"], query["world_size"])
    store = FileStore(parts.path, query["world_size"])
    store.set_timeout(timeout)
    yield store, query["rank"], query["world_size"]


def _variable(name):
    value = os.environ.get(name)
    if not value:
        value = variables_of_scheduler().get(name)
    if not value:
        raise ValueError(
            f"init_process_group: env:// needs the environment variable {name}, which is not set; "
            "start the processes with `python -m rushlight.distributed.run`, mpirun or srun (over "
            "several machines mpirun needs MASTER_ADDR), or pass rank, world_size and init_method"
        )
    return value


def _from_environment(url, timeout=DEFAULT_TIMEOUT):
    _, query = _asked(url, "env", ())
    rank = query["rank"] if "rank" in query else int(_variable("RANK"))
    world_size = query["world_size"] if "world_size" in query else int(_variable("WORLD_SIZE"))
    _check_rank(rank, world_size)
    host, port = _variable("MASTER_ADDR"), int(_variable("MASTER_PORT"))
    # Where the launcher holds the store, it outlives every rank, and serves their next attempts.
    by_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(host, port, world_size, rank == 0 and not by_launcher, timeout)
    if by_launcher:
        # What another job or an earlier attempt left there is never seen.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        job = os.environ.get("TORCHELASTIC_RUN_ID", "none")
        store = PrefixStore(f"job/{job}/attempt/{attempt}", store)
    yield store, rank, world_size


register_rendezvous_handler("tcp", _from_tcp)
register_rendezvous_handler("file", _from_file)
register_rendezvous_handler("env", _from_environment)
