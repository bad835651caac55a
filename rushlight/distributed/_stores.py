"""The stores, and the core's part of this package, which is loaded here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rushlight import _C
from rushlight.distributed import _errors

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

# Known to whoever may use the store; the launcher makes one up for its workers.
TOKEN_VARIABLE = "RUSHLIGHT_STORE_TOKEN"

core: Any = _C._load_distributed(  # type: ignore[misc]
    _errors.DistStoreError, _errors.DistNetworkError, _errors.DistBackendError
)


class Store:
    """Keys and values that processes share while they find each other. Values are bytes.

    The base of `TCPStore`, `FileStore`, `HashStore` and `PrefixStore`; it is not made itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> store = dist.HashStore()
        >>> isinstance(store, dist.Store)
        True
        >>> store.set("host", "node1")
        >>> store.get("host")
        b'node1'
        >>> store.add("came", 1), store.add("came", 2)
        (1, 3)
        >>> store.check(["host", "port"])
        False
    """

    _core: Any

    def __init__(self) -> None:
        raise NotImplementedError(
            "Store: make a TCPStore, FileStore, HashStore or PrefixStore; stores written in Python "
            "are not there yet"
        )

    def set(self, key: str, value: str | bytes) -> None:
        """Gives the key a value, whatever it had before."""
        self._core.set(key, value)

    def get(self, key: str) -> bytes:
        """The value of a key; waits until it is there, no longer than the timeout."""
        return self._core.get(key)

    def append(self, key: str, value: str | bytes) -> None:
        """Puts more bytes behind the value of a key."""
        self._core.append(key, value)

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which counts from 0, and returns the sum."""
        return self._core.add(key, amount)

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Sets a key that has the expected value, or that is not there where ``expected_value`` is
        empty. Returns the value that is there then, or ``expected_value`` if there is none."""
        return self._core.compare_set(key, expected_value, desired_value)

    def check(self, keys: list[str]) -> bool:
        """Whether all the keys are there."""
        return self._core.check(keys)

    def delete_key(self, key: str) -> bool:
        """Removes a key; whether it was there."""
        return self._core.delete_key(key)

    def num_keys(self) -> int:
        """How many keys there are; a TCPStore has one of its own."""
        return self._core.num_keys()

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all the keys are there."""
        self._core.wait(keys, timeout)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Gives several keys their values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether append, multi_get and multi_set are there."""
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        """How long get and wait wait from now on."""
        self._core.set_timeout(timeout)

    @property
    def timeout(self) -> timedelta:
        """How long get and wait wait."""
        return self._core.timeout


class HashStore(Store):
    """A store for the threads of one process.

    Example:
        >>> from rushlight import distributed as dist
        >>> store = dist.HashStore()
        >>> store.set("key", "value")
        >>> store.append("key", "s")
        >>> store.get("key")
        b'values'
        >>> store.compare_set("key", "values", "new")
        b'new'
    """

    def __init__(self) -> None:
        self._core = core.HashStore()


class FileStore(Store):
    """A store in a file that all processes can reach. The last of ``world_size`` processes to close
    it removes the file.

    Arguments:
        file_name: the path; the file is made where it is not there.
        world_size: how many processes use it; without a number above 0 the file stays.

    Example:
        >>> import os, tempfile
        >>> from rushlight import distributed as dist
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = os.path.join(folder.name, "store")
        >>> store = dist.FileStore(path, world_size=1)
        >>> store.set("key", "value")
        >>> dist.FileStore(path).get("key")
        b'value'
        >>> del store
        >>> os.path.exists(path)
        False
        >>> folder.cleanup()
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self._core = core.FileStore(file_name, world_size)

    @property
    def path(self) -> str:
        """The file."""
        return self._core.path


class PrefixStore(Store):
    """A part of another store: all keys get a prefix.

    Arguments:
        prefix: what is put before the keys.
        store: the store that holds them.

    Example:
        >>> from rushlight import distributed as dist
        >>> store = dist.HashStore()
        >>> first, second = dist.PrefixStore("first", store), dist.PrefixStore("second", store)
        >>> first.set("key", "1")
        >>> second.set("key", "2")
        >>> first.get("key"), second.get("key"), store.num_keys()
        (b'1', b'2', 2)
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self._core = core.PrefixStore(prefix, store._core)
        self.underlying_store = store


class TCPStore(Store):
    """A store that the process with ``is_master`` holds, and that the others reach at its address.

    The master listens at the address of ``host_name`` only. Where the environment variable
    RUSHLIGHT_STORE_TOKEN is set, whoever does not know its value is not served.

    Arguments:
        host_name: the master's name or address.
        port: where the master listens; 0, on the master, for a free port.
        world_size: how many processes come, the master among them; None where that is open.
        is_master: hold the store here.
        timeout: how long get and wait wait.
        wait_for_workers: as the master, wait until `world_size` processes have come.
        multi_tenant, use_libuv: accepted as PyTorch has them; change nothing.
        master_listen_fd: as the master, the descriptor of a socket that listens already.

    Example:
        >>> from rushlight import distributed as dist
        >>> master = dist.TCPStore("127.0.0.1", 0, is_master=True)
        >>> worker = dist.TCPStore("127.0.0.1", master.port)
        >>> worker.set("key", "value")
        >>> master.get("key")
        b'value'
    """

    def __init__(self, host_name: str, port: int, world_size: int | None = None,
                 is_master: bool = False, timeout: timedelta = timedelta(seconds=300),
                 wait_for_workers: bool = True, multi_tenant: bool = False,
                 master_listen_fd: int | None = None, use_libuv: bool = True) -> None:  # fmt: skip
        self._core = core.TCPStore(
            host_name, port, world_size, is_master, timeout, wait_for_workers, multi_tenant,
            master_listen_fd, use_libuv,
        )  # fmt: skip

    @property
    def host(self) -> str:
        """The master's address."""
        return self._core.host

    @property
    def port(self) -> int:
        """The port that the master listens at."""
        return self._core.port
