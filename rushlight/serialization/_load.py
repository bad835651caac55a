"""rushlight.load: files that save or PyTorch wrote."""

import os
from contextlib import contextmanager

from rushlight import _C
from rushlight._C import UntypedStorage
from rushlight.serialization import _options
from rushlight.serialization._allowed import Allowed
from rushlight.serialization._pickle_reader import PickleReader
from rushlight.serialization._scan import Scanner
from rushlight.serialization._sources import FileSource, MappedSource
from rushlight.serialization._storages import Storages, bytes_of
from rushlight.serialization._zip_reader import ZipReader

_ZIP = b"PK\x03\x04"


def load(f, map_location, pickle_module, weights_only, mmap, arguments):
    if weights_only is None:
        weights_only = pickle_module is None  # who names an unpickler trusts the file
    if weights_only and pickle_module is not None:
        raise RuntimeError(
            "load: a pickle_module runs what the file says; pass weights_only=False with it, if "
            "you trust the file, or leave it out"
        )
    arguments = {"encoding": "utf-8", **arguments}
    if weights_only and set(arguments) != {"encoding"}:
        raise TypeError(f"load: unexpected arguments {sorted(set(arguments) - {'encoding'})}")

    def load_pickle(data, at, persistent_load):
        if weights_only:
            allowed = Allowed()
            encoding = arguments["encoding"]
            return PickleReader(data, allowed.find, persistent_load, encoding, at).load()
        from rushlight.serialization._trusted import load_trusted

        return load_trusted(memoryview(data)[at:], persistent_load, pickle_module, arguments)

    with _opened(f, mmap) as source:
        if _is_zip(source):
            return _load_zip(source, map_location, load_pickle)
        if mmap:
            raise RuntimeError(
                "load: mmap=True needs a file in the zip format; this one is older, or was not "
                "written by save. Pass mmap=False"
            )
        if source.length == 0:
            raise EOFError(
                "load: the file is empty, or the file object stands at its end (seek(0) first)"
            )
        from rushlight.serialization._legacy_reader import load_legacy

        data = source.read(0, source.length)
        return load_legacy(data, map_location, load_pickle, arguments["encoding"])


@contextmanager
def _opened(f, mmap):
    is_path = isinstance(f, str | os.PathLike)
    if mmap:
        if not is_path:
            raise ValueError(f"load: mmap=True needs the path of a file, got {type(f).__name__}")
        yield MappedSource(f, _options.get_default_mmap_options())
    elif is_path:
        with open(f, "rb") as file:
            yield FileSource(file)
    else:
        yield _source_of_object(f)


def _source_of_object(f):
    hint = "load it into io.BytesIO first, which can"
    for name in ("read", "seek", "tell"):
        if not hasattr(f, name):
            raise AttributeError(
                f"load: expected a path or a binary file that can seek; {type(f).__name__} has no "
                f"{name!r}; {hint}"
            )
    try:
        source = FileSource(f)
    except (OSError, AttributeError) as error:
        raise type(error)(f"load: the file object cannot seek ({error}); {hint}") from error
    if source.length and not isinstance(f.read(0), bytes):
        raise TypeError("load: the file must be opened in binary mode, 'rb'")
    return source


def _is_zip(source):
    return source.length >= 4 and source.read(0, 4) == _ZIP


def _archive(source):
    archive = ZipReader(source, _options.get_crc32_options())
    if "constants.pkl" in archive:
        raise RuntimeError(
            "load: the file is a TorchScript archive, a program and not data; jit.load reads it, "
            "and its state_dict() has the weights"
        )
    return archive


def _load_zip(source, map_location, load_pickle):
    archive = _archive(source)
    mapped = hasattr(source, "view")
    big_endian = _is_big_endian(archive)

    def fetch(key, nbytes, itemsize):
        name = f"data/{key}"
        there = archive.size(name)
        if there < nbytes:
            raise RuntimeError(
                f"load: the storage {key!r} should have {nbytes} bytes and its record has {there}; "
                "the file is damaged"
            )
        view = archive.view(name) if mapped and nbytes else None
        if view is not None:
            over_file = _C.frombuffer(view[:nbytes], dtype=_C.uint8)
            if over_file.data_ptr() % itemsize == 0:
                return over_file.untyped_storage()
        storage = UntypedStorage(nbytes)
        if nbytes and not _options.data_is_skipped():
            if mapped:
                bytes_of(storage)[:] = archive.read(name)[:nbytes]
            else:
                archive.read_into(name, bytes_of(storage))
        return storage

    storages = Storages(map_location, fetch, big_endian)
    return load_pickle(archive.read("data.pkl"), 0, storages.load)


def _is_big_endian(archive):
    if "byteorder" in archive:
        order = archive.read("byteorder", at_most=16)
        if order not in (b"little", b"big"):
            raise ValueError(f"load: the file's byte order {order!r} is neither little nor big")
        return order == b"big"
    import sys

    default = _options.get_default_load_endianness()
    if default is _options.LoadEndianness.NATIVE:
        return sys.byteorder == "big"
    return default is _options.LoadEndianness.BIG


def unsafe_globals(f):
    """The names in a file that are on no list, in the order in which they come."""
    with _opened(f, None) as source:
        if not _is_zip(source):
            raise ValueError(
                "get_unsafe_globals_in_checkpoint: expected a file in save's zip format"
            )
        scanner = Scanner(_archive(source).read("data.pkl"))
    scanner.load()
    allowed = Allowed()
    return [name for name in dict.fromkeys(scanner.names) if allowed.get(name) is None]
