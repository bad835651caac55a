"""The file system under a checkpoint, which another one can take the place of."""

from __future__ import annotations

import contextlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

Place = str | os.PathLike[str]


class FileSystemBase(ABC):
    """What the reader and the writer need of a file system; another one can take its place as
    their attribute ``fs``."""

    @contextmanager
    @abstractmethod
    def create_stream(self, path: Place, mode: str) -> Iterator[IO[Any]]:
        """An open file."""
        raise NotImplementedError
        yield

    @abstractmethod
    def concat_path(self, path: Place, suffix: str) -> Place:
        """The path of a file in a folder."""

    @abstractmethod
    def rename(self, path: Place, new_path: Place) -> None:
        """Gives a file another name, in place of what has it."""

    @abstractmethod
    def init_path(self, path: Place) -> Place:
        """The path as the others take it."""

    @abstractmethod
    def mkdir(self, path: Place) -> None:
        """Makes a folder, unless it is there."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Place) -> bool:
        """Whether it is a path of this file system."""

    @abstractmethod
    def exists(self, path: Place) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def rm_file(self, path: Place) -> None:
        """Removes a file."""


class FileSystem(FileSystemBase):
    """The machine's own."""

    @contextmanager
    def create_stream(self, path: Place, mode: str) -> Iterator[IO[Any]]:
        """An open file."""
        with open(path, mode) as stream:
            yield stream

    def concat_path(self, path: Place, suffix: str) -> Path:
        """The path of a file in a folder."""
        return Path(path) / suffix

    def rename(self, path: Place, new_path: Place) -> None:
        """Gives a file another name, in place of what has it; the folder is flushed."""
        os.replace(path, new_path)
        with contextlib.suppress(OSError):  # not every file system can
            _flush_folder(Path(new_path).parent)

    def init_path(self, path: Place) -> Path:
        """A Path."""
        return Path(path)

    def mkdir(self, path: Place) -> None:
        """Makes a folder, unless it is there."""
        os.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Place) -> bool:
        """Whether something can be written there."""
        if isinstance(checkpoint_id, Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        return any(p.exists() and os.access(p, os.W_OK) for p in Path(checkpoint_id).parents)

    def exists(self, path: Place) -> bool:
        """Whether there is such a file."""
        return os.path.exists(path)

    def rm_file(self, path: Place) -> None:
        """Removes a file."""
        os.unlink(path)

    def ls(self, path: Place) -> list[str]:
        """The files of a folder."""
        return [str(p) for p in Path(path).iterdir()]


def _flush_folder(path: Place) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush(stream: Any) -> None:
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        os.sync()


class FileView(io.RawIOBase):
    """Some bytes of a file, as a file."""

    def __init__(self, stream: Any, offset: int, length: int) -> None:
        end = stream.seek(0, io.SEEK_END)
        if offset + length > end:
            raise EOFError(
                f"distributed.checkpoint: a file should have {offset + length} bytes, and has {end}"
            )
        self._stream, self._offset, self._length, self._at = stream, offset, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = max(base + position, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(min(len(view), self._length - self._at), 0)
        self._stream.seek(self._offset + self._at)
        done = self._stream.readinto(view[:count])
        self._at += done
        return done
