"""Settings of save and load that hold for the whole process."""

from __future__ import annotations

import enum
import mmap as _mmap_flags_only
import threading
from typing import Any


class LoadEndianness(enum.Enum):
    """The byte order of files that do not say theirs.

    NATIVE is the order of this machine.

    Example:
        >>> rl.serialization.LoadEndianness.LITTLE
        <LoadEndianness.LITTLE: 2>
        >>> [order.name for order in rl.serialization.LoadEndianness]
        ['NATIVE', 'LITTLE', 'BIG']
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Settings:
    endianness: Any = None
    crc32 = True
    mmap_flags = _mmap_flags_only.MAP_PRIVATE


_settings = _Settings()
_this_thread = threading.local()


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed for files without a mark; None stands for little.

    Example:
        >>> print(rl.serialization.get_default_load_endianness())
        None
    """
    return _settings.endianness


def set_default_load_endianness(endianness: Any) -> None:
    """Sets the byte order assumed for files without a mark.

    Arguments:
        endianness: a LoadEndianness, or None.

    Raises:
        TypeError: for anything else.

    Example:
        >>> rl.serialization.set_default_load_endianness(rl.serialization.LoadEndianness.BIG)
        >>> rl.serialization.get_default_load_endianness().name
        'BIG'
        >>> rl.serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            "set_default_load_endianness: expected a LoadEndianness or None, got "
            f"{type(endianness).__name__}"
        )
    _settings.endianness = endianness


def get_crc32_options() -> bool:
    """Whether checksums are written and checked.

    Example:
        >>> rl.serialization.get_crc32_options()
        True
    """
    return _settings.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether save writes checksums and load checks them. Files without them cannot be opened by
    zip tools, and damage to them is not noticed.

    Arguments:
        compute_crc32: whether they do; at first they do.

    Example:
        >>> rl.serialization.set_crc32_options(False)
        >>> rl.serialization.get_crc32_options()
        False
        >>> rl.serialization.set_crc32_options(True)
    """
    _settings.crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int | None:
    """The flag that load(mmap=True) maps files with.

    Example:
        >>> import mmap
        >>> rl.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
        True
    """
    return _settings.mmap_flags


class set_default_mmap_options:
    """Sets the flag that load(mmap=True) maps with, MAP_PRIVATE (at first) or MAP_SHARED.

    As a context manager, for a while. With MAP_SHARED, writing to a loaded tensor writes to the
    file.

    Arguments:
        flags: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`.

    Raises:
        ValueError: for other flags.

    Example:
        >>> import mmap
        >>> with rl.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     rl.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
        >>> rl.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        False
    """

    def __init__(self, flags: int) -> None:
        if flags not in (_mmap_flags_only.MAP_PRIVATE, _mmap_flags_only.MAP_SHARED):
            raise ValueError(
                "set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"got {flags!r}"
            )
        self.prev = _settings.mmap_flags
        _settings.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _settings.mmap_flags = self.prev


class skip_data:
    """A context in which save leaves room for the bytes of storages without writing them, and load
    makes storages without reading them.

    Arguments:
        materialize_fake_tensors: accepted, and kept as an attribute.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> with rl.serialization.skip_data(materialize_fake_tensors=False):
        ...     rl.save({"weight": rl.ones(2, 3)}, file)
        >>> _ = file.seek(0)
        >>> rl.load(file)["weight"].shape
        rushlight.Size([2, 3])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before = getattr(_this_thread, "skip_data", False)
        _this_thread.skip_data = True

    def __exit__(self, *error: object) -> None:
        _this_thread.skip_data = self._before


def data_is_skipped():
    return getattr(_this_thread, "skip_data", False)
