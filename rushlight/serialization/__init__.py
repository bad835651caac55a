"""Saving and loading, in PyTorch's file format. docs/saving.md is the guide."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import IO, Any, TypeVar

from rushlight._C import UntypedStorage, device
from rushlight._names.missing import names_missing_from
from rushlight.serialization._options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from rushlight.serialization._safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from rushlight.types import Device

_T = TypeVar("_T")

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "validate_cuda_device",
]

FILE_LIKE = str | os.PathLike  # or an object with read or write
MAP_LOCATION = Callable | device | str | dict | None


FileLike = FILE_LIKE
DEFAULT_PROTOCOL = 2


class SourceChangeWarning(Warning):
    """PyTorch's warning about a model whose source changed; never given here."""


# The work is done by modules that are imported at the first call, to keep `import rushlight` quick.


def save(
    obj: object,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes an object with its tensors into a file, in PyTorch's format.

    Save state_dicts rather than modules: they can be loaded when the code has changed.

    Arguments:
        obj: tensors, dicts and lists of them, or anything that can be pickled.
        f: a path, or a file opened for writing bytes.
        pickle_module: a module with a Pickler, such as cloudpickle, for functions and classes that
            have no name to be found by; load such a file with weights_only=False.
        pickle_protocol: 2 to 5.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> rl.save({"weight": rl.ones(2)}, file, pickle_protocol=2)
        >>> _ = file.seek(0)
        >>> rl.load(file)
        {'weight': tensor([1., 1.])}
    """
    from rushlight.serialization._save import save as run

    run(
        obj, f, pickle_module, pickle_protocol, _use_new_zipfile_serialization,
        _disable_byteorder_record,
    )  # fmt: skip


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Callable[[UntypedStorage, str], UntypedStorage]
    | Device
    | str
    | dict[str, str]
    | None = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what save, here or in PyTorch, wrote.

    Arguments:
        f: a path, or a file opened for reading bytes.
        map_location: where tensors go: a device, a dict of devices or a function.
        pickle_module: another unpickler, which runs what the file says; weights_only is False
            with it.
        weights_only: refuse files that could run code; True by default. Set it to False only for
            files that you trust.
        mmap: map the file instead of reading it; tensors are read when they are used.
        pickle_load_args: passed on to the unpickler.

    Raises: UnpicklingError for a file that names classes which are not allowed; see
        serialization.add_safe_globals.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> rl.save([rl.arange(3)], file)
        >>> _ = file.seek(0)
        >>> rl.load(file, map_location="cpu")
        [tensor([0, 1, 2])]
    """
    from rushlight.serialization._load import load as run

    return run(f, map_location, pickle_module, weights_only, mmap, pickle_load_args)


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """The names in a file that load would refuse, without loading it.

    Arguments:
        f: a path or an open file.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> rl.save({"x": rl.ones(1)}, file)
        >>> _ = file.seek(0)
        >>> rl.serialization.get_unsafe_globals_in_checkpoint(file)
        []
    """
    from rushlight.serialization._load import unsafe_globals as run

    return run(f)


def register_package(priority: int, tagger: Any, deserializer: Any) -> None:
    """Adds a kind of location: tagger(storage) names it, deserializer(storage, location) moves a
    storage there; both return None for what is not theirs. Lower priorities are asked first.

    Arguments:
        priority: a number; those of the CPU, CUDA and meta are 10, 20 and 22.
        tagger: gives the name of a storage's place, or None.
        deserializer: gives the storage at the place that a name stands for, or None.

    Example:
        >>> def to_shelf(storage, location):
        ...     return storage if location == "shelf" else None
        >>> rl.serialization.register_package(90, lambda storage: None, to_shelf)
        >>> storage = rl.ones(2).untyped_storage()
        >>> rl.serialization.default_restore_location(storage, "shelf") is storage
        True
    """
    from rushlight.serialization._devices import register_package as run

    run(priority, tagger, deserializer)


def location_tag(storage: UntypedStorage) -> str:
    """The name that a file has for the place of a storage, such as 'cpu'.

    Arguments:
        storage: the storage.

    Raises:
        RuntimeError: where no registered package knows the place.

    Example:
        >>> rl.serialization.location_tag(rl.ones(2).untyped_storage())
        'cpu'
        >>> rl.serialization.location_tag(rl.ones(2, device="meta").untyped_storage())
        'meta'
    """
    from rushlight.serialization._devices import location_tag as run

    return run(storage)


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """The storage at the place that a file names.

    Arguments:
        storage: the storage, as it was read.
        location: the name, such as "cpu" or "cuda:0".

    Raises:
        RuntimeError: where no registered package knows the name.

    Example:
        >>> storage = rl.ones(2).untyped_storage()
        >>> rl.serialization.default_restore_location(storage, "meta").device
        device(type='meta')
    """
    from rushlight.serialization._devices import default_restore_location as run

    return run(storage, location)


def validate_cuda_device(location: str) -> int:
    """The index of a CUDA location; raises where there is no such device.

    Arguments:
        location: such as "cuda" or "cuda:1".

    Raises:
        RuntimeError: where no CUDA device is available, or fewer than that.

    Example:
        >>> try:
        ...     rl.serialization.validate_cuda_device("cuda:100")
        ... except RuntimeError as error:
        ...     print(str(error).partition(",")[0])
        load: the file holds tensors of the device 'cuda:100'
    """
    from rushlight.serialization._devices import validate_cuda_device as run

    return run(location)


def _get_layout(name):
    """The layout that a file names."""
    from rushlight.serialization._rebuild import layout

    return layout(name)


def normalize_storage_type(storage_type: _T) -> _T:
    """The class of storages, whatever the device."""
    return storage_type


def _is_zipfile(f):
    """Whether a file begins as PyTorch's zip files do."""
    start = f.tell()
    found = f.read(4)
    f.seek(start)
    return found == b"PK\x03\x04"


def _is_path(name_or_buffer):
    """Whether it is the name of a file."""
    return isinstance(name_or_buffer, str | os.PathLike)


__getattr__ = names_missing_from(__name__)
