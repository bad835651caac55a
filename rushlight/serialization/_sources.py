"""Bytes to load from: a file object, or a memory map of a file."""

import io

from rushlight.serialization._pieces import PIECE


class FileSource:
    """A seekable file object, from where it stands."""

    def __init__(self, file):
        self._file = file
        self._start = file.tell()
        self.length = max(file.seek(0, io.SEEK_END) - self._start, 0)
        file.seek(self._start)
        self._has_readinto = callable(getattr(file, "readinto", None))

    def read(self, offset, length):
        if offset < 0 or length < 0 or offset + length > self.length:
            raise truncated(offset + length, self.length)
        self._file.seek(self._start + offset)
        data = self._file.read(length)
        while len(data) < length:
            more = self._file.read(length - len(data))
            if not more:
                raise truncated(offset + length, offset + len(data))
            data += more
        return data

    def read_into(self, offset, target):
        """Fills a memoryview."""
        if not self._has_readinto:
            target[:] = self.read(offset, len(target))
            return
        if offset < 0 or offset + len(target) > self.length:
            raise truncated(offset + len(target), self.length)
        self._file.seek(self._start + offset)
        done = 0
        while done < len(target):
            n = self._file.readinto(target[done : done + PIECE])
            if not n:
                raise truncated(offset + len(target), offset + done)
            done += n


class MappedSource:
    """A file mapped into memory; records are used where they lie."""

    def __init__(self, path, flags):
        import mmap

        with open(path, "rb" if flags == mmap.MAP_PRIVATE else "r+b") as file:
            # Private pages are copied when written to, so the file needs no right to be written.
            access = mmap.ACCESS_COPY if flags == mmap.MAP_PRIVATE else mmap.ACCESS_WRITE
            try:
                self._view = memoryview(mmap.mmap(file.fileno(), 0, access=access))
            except ValueError:
                raise RuntimeError(f"load: {path!r} is empty") from None
        self.length = len(self._view)

    def read(self, offset, length):
        return bytes(self.view(offset, length))

    def view(self, offset, length):
        if offset < 0 or length < 0 or offset + length > self.length:
            raise truncated(offset + length, self.length)
        return self._view[offset : offset + length]


def truncated(needed, there):
    return RuntimeError(
        f"load: the file ends too early: byte {needed} is needed and there are {there}; it was "
        "cut short or is damaged"
    )
