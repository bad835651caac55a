"""The storages of a file: made when the pickle names them, checked against the bytes there."""

import pickle
import sys

from rushlight import _C
from rushlight._C import UntypedStorage
from rushlight.serialization._devices import restorer
from rushlight.serialization._names import StorageType
from rushlight.serialization._options import data_is_skipped
from rushlight.storage import TypedStorage


class Storages:
    """Answers persistent ids. `fetch(key, nbytes, itemsize)` gives a CPU storage of the bytes."""

    def __init__(self, map_location, fetch, big_endian):
        self._restore = restorer(map_location)
        self._to_meta = isinstance(map_location, str | _C.device) and str(map_location) == "meta"
        self._fetch = fetch
        self._swap = big_endian != (sys.byteorder == "big")
        self._loaded = {}

    def load(self, pid):
        """The storage that ("storage", type, key, location, number of elements) stands for."""
        kind, key, location, numel = parse_id(pid)
        if key not in self._loaded:
            self._loaded[key] = self._made(kind, key, location, numel * kind.itemsize)
        return self._loaded[key]

    def _made(self, kind, key, location, nbytes):
        if self._to_meta:
            storage = UntypedStorage(nbytes, device="meta")
        else:
            storage = self._fetch(key, nbytes, kind.itemsize)
            if self._swap and not data_is_skipped():
                storage = _swapped(storage, kind)
            storage = self._restore(storage, location)
            if isinstance(storage, TypedStorage):
                storage = storage.untyped()
            if not isinstance(storage, UntypedStorage):
                raise TypeError(
                    "load: map_location must return a storage or None, got "
                    f"{type(storage).__name__}"
                )
        return (
            storage if kind.dtype is None else TypedStorage(wrap_storage=storage, dtype=kind.dtype)
        )


def parse_id(pid):
    """(storage type, key, location, number of elements), checked."""
    if len(pid) not in (5, 6) or _text(pid[0]) != "storage":
        raise pickle.UnpicklingError(
            f"the file refers to something that is no storage: {pid!r:.80}"
        )
    kind, key, location, numel = pid[1], _text(pid[2]), _text(pid[3]), pid[4]
    if not isinstance(kind, StorageType):
        raise pickle.UnpicklingError(f"a storage has no storage type, but {kind!r:.80}")
    if type(key) is not str or type(location) is not str or type(numel) is not int:
        raise pickle.UnpicklingError("the key, place or length of a storage has the wrong type")
    if not 0 <= numel < 1 << 58:
        raise RuntimeError(f"load: a storage claims to have {numel} elements")
    return kind, key, location, numel


def _text(value):
    return value.decode("latin1") if isinstance(value, bytes) else value


def bytes_of(storage):
    """A storage's memory as a memoryview."""
    return _C._own_memory(storage)


def _swapped(storage, kind):
    """The other byte order; complex numbers are two."""
    if kind.dtype is None:
        raise RuntimeError(
            "load: the file has the other byte order and a storage that does not say its dtype, so "
            "its bytes cannot be put in order"
        )
    n = kind.itemsize // 2 if kind.dtype.is_complex else kind.itemsize
    if n == 1 or storage.nbytes() == 0:
        return storage
    source = bytearray(bytes_of(storage))
    out = bytearray(len(source))
    for i in range(n):
        out[i::n] = source[n - 1 - i :: n]
    fresh = UntypedStorage(len(out))
    bytes_of(fresh)[:] = out
    return fresh
