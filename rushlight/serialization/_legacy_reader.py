"""PyTorch's format before 1.6: pickles one after the other, then the bytes of the storages."""

import pickle
import struct

from rushlight import _C
from rushlight._C import UntypedStorage
from rushlight.serialization._names import STORAGE_TYPES
from rushlight.serialization._options import data_is_skipped
from rushlight.serialization._pickle_reader import PickleReader
from rushlight.serialization._scan import Scanner
from rushlight.serialization._sources import truncated
from rushlight.serialization._storages import Storages, bytes_of, parse_id
from rushlight.storage import TypedStorage

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_PLAIN_PICKLE = (
    "load: this is not a file that save wrote, but perhaps a plain pickle, which pickle.load reads "
    "if you trust where it comes from"
)


_OTHER_FILES = {
    b"\x93NUMPY": "an array of NumPy's, which numpy.load reads",
    b"\x89HDF": "an HDF5 file, as Keras writes them, which h5py reads",
    b"GGUF": "a GGUF file, the format of llama.cpp",
    b"\x1f\x8b": "compressed by gzip, so that it has to be decompressed first",
    b"BZh": "compressed by bzip2, so that it has to be decompressed first",
    b"\xfd7zXZ": "compressed by xz, so that it has to be decompressed first",
    b"\x28\xb5\x2f\xfd": "compressed by zstd, so that it has to be decompressed first",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
}


def _other_kind(data):
    """What the file is, where its first bytes tell, or ""."""
    for start, kind in _OTHER_FILES.items():
        if data[: len(start)] == start:
            return f"it is {kind}"
    header = int.from_bytes(data[:8], "little")
    if data[8:9] == b"{" and header + 8 <= len(data):
        return "it is a safetensors file, which rushlight.utils.safetensors.load_file reads"
    return ""


def _first_words(data):
    """What a text file begins with, or "" if the data are no text."""
    start = bytes(data[:40])
    if not start.isascii() or not start.decode("ascii").replace("\n", " ").isprintable():
        return ""
    words = f"it begins with {start.decode('ascii').splitlines()[0]!r}"
    if start.lstrip().lower().startswith((b"<!doctype", b"<html")):
        words += ": a web page was saved in the place of the file"
    elif start.startswith(b"version https://git-lfs"):
        words += ": a pointer of Git LFS; `git lfs pull` gets the file"
    return words


def load_legacy(data, map_location, load_pickle, encoding):
    """`load_pickle(data, at, persistent_load)` reads the object itself, safely or not."""
    header = _Plain(data, encoding)
    if data[257:262] == b"ustar":
        raise RuntimeError(
            "load: the file is a tar archive, PyTorch's format before 0.2, which is not supported; "
            "load and save it again with PyTorch"
        )
    try:
        magic = header.next()
    except pickle.UnpicklingError as error:
        known = _other_kind(data) or _first_words(data) or str(error).removeprefix("load: ")
        if data[:1] == b"\x80":  # as pickles begin
            raise pickle.UnpicklingError(f"{_PLAIN_PICKLE} ({known})") from None
        raise pickle.UnpicklingError(
            "load: this is not a file that save wrote: neither a zip archive nor a pickle "
            f"({known})"
        ) from None
    if magic != _MAGIC:
        raise RuntimeError(_PLAIN_PICKLE)
    version, about = header.next(), header.next()
    if version != _VERSION:
        raise RuntimeError(f"load: the file's format version {version!r:.40} is not known")
    big_endian = type(about) is dict and about.get("little_endian") is False

    # The bytes come last, but tensors are to be made from complete storages: skip the object first.
    start = header.at
    scanner = Scanner(data, encoding, start)
    scanner.load()
    header.at = scanner.end
    keys = header.next()
    places = _places(data, header.at, keys, _item_sizes(scanner.storages))

    def fetch(key, nbytes, itemsize):
        if key not in places:
            raise RuntimeError(f"load: the file has no bytes for the storage {key!r}")
        offset, there = places[key]
        if there != nbytes:
            raise RuntimeError(f"load: the storage {key!r} has {there} bytes, not {nbytes}")
        storage = UntypedStorage(nbytes)
        if nbytes and not data_is_skipped():
            bytes_of(storage)[:] = memoryview(data)[offset : offset + nbytes]
        return storage

    storages = Storages(map_location, fetch, big_endian)
    views = {}

    def persistent_load(pid):
        if len(pid) == 4 and pid[0] in ("module", b"module"):
            return pid[1]  # a class, with its source, which was for people to compare
        root = storages.load(pid)
        if len(pid) < 6 or pid[5] is None:
            return root
        return _view(views, root, pid[5])

    return load_pickle(data, start, persistent_load)


class _Plain:
    """The pickles of plain data between the parts; they may name nothing."""

    def __init__(self, data, encoding):
        self._data, self._encoding, self.at = data, encoding, 0

    def next(self):
        reader = PickleReader(self._data, self._refuse, self._refuse, self._encoding, self.at)
        value = reader.load()
        self.at = reader.end
        return value

    @staticmethod
    def _refuse(*args):
        raise pickle.UnpicklingError("the file's own description holds more than plain data")


def _item_sizes(pids):
    sizes = {}
    for pid in pids:
        if type(pid) is not tuple:
            raise pickle.UnpicklingError(f"load: the file names no known storage: {pid!r:.80}")
        if len(pid) == 4:
            continue
        kind = STORAGE_TYPES.get(getattr(pid[1], "name", None)) if len(pid) == 6 else None
        if kind is None:
            raise pickle.UnpicklingError(f"load: the file names no known storage: {pid!r:.80}")
        kind, key, _, _ = parse_id((pid[0], kind, *pid[2:]))
        sizes.setdefault(key, kind.itemsize)
    return sizes


def _places(data, at, keys, sizes):
    """{key: (offset, bytes)} of the storages at the end of the file."""
    if type(keys) is not list:
        raise pickle.UnpicklingError("load: the list of storages is not a list")
    places = {}
    for key in keys:
        key = key.decode("ascii") if isinstance(key, bytes) else key
        if type(key) is not str or key not in sizes or key in places:
            raise RuntimeError(f"load: the bytes of an unknown storage are there: {key!r:.80}")
        if len(data) - at < 8:
            raise truncated(at + 8, len(data))
        numel = struct.unpack_from("<q", data, at)[0]
        nbytes = numel * sizes[key]
        at += 8
        if numel < 0 or nbytes > len(data) - at:
            raise truncated(at + nbytes, len(data))
        places[key] = at, nbytes
        at += nbytes
    return places


def _view(views, root, metadata):
    """Before 0.4 a storage could be a part of another one."""
    if type(metadata) is not tuple or len(metadata) != 3:
        raise pickle.UnpicklingError("the part of a storage is not described by three values")
    key, offset, numel = metadata
    if not isinstance(root, TypedStorage) or type(offset) is not int or type(numel) is not int:
        raise pickle.UnpicklingError("the part of a storage is not given by numbers")
    if offset < 0 or numel < 0 or offset + numel > len(root):
        raise RuntimeError(
            f"load: elements {offset} to {offset + numel} of a storage of {len(root)} are named"
        )
    if numel == 0 or (offset == 0 and numel == len(root)):
        return root
    if key not in views:
        item = root.element_size()
        # Two storages over one memory: by the buffer, which says so.
        part = memoryview(root.untyped())[offset * item : (offset + numel) * item]
        shared = _C.frombuffer(part, dtype=_C.uint8).untyped_storage()
        views[key] = TypedStorage(wrap_storage=shared, dtype=root.dtype)
    return views[key]
