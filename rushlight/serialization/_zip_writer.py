"""A zip archive of uncompressed records, each beginning at a multiple of 64 bytes.

Written front to back in one go, so that any object with a `write` will do. The padding before a
record's bytes lies in an extra field of its header, as in PyTorch's files.
"""

import struct
import zlib

from rushlight.serialization._pieces import PIECE, checksum

ALIGNMENT = 64
_PAD_FIELD = b"FB"
_UTF8 = 1 << 11
_MAX32 = 0xFFFFFFFF
_MAX16 = 0xFFFF
_DATE_1980 = (1 << 5) | 1  # the first day that zip can name


class ZipWriter:
    def __init__(self, file, with_crc=True):
        self._file = file
        self._with_crc = with_crc
        self._position = 0
        self._directory = []

    def _write(self, data):
        view = memoryview(data).cast("B")
        self._position += len(view)
        while len(view):
            # A raw file may take less than it is given; a buffered one takes all.
            taken = self._file.write(view[:PIECE])
            taken = min(len(view), PIECE) if taken is None else taken
            if taken <= 0:
                raise OSError("save: the file object takes no more bytes")
            view = view[taken:]

    def write_record(self, name, data, padding=0):
        """One record: the bytes of `data`, and zeros after them."""
        data, tail = memoryview(data).cast("B"), bytes(padding)
        size, start = len(data) + padding, self._position
        crc = zlib.crc32(tail, checksum(data)) if self._with_crc else 0
        encoded = name.encode()
        large = size >= _MAX32
        extra = struct.pack("<HHQQ", 1, 16, size, size) if large else b""
        before = start + 30 + len(encoded) + len(extra) + 4
        gap = -before % ALIGNMENT
        extra += _PAD_FIELD + struct.pack("<H", gap) + b"Z" * gap
        size32 = _MAX32 if large else size
        self._write(
            struct.pack(
                "<4s5H3L2H", b"PK\x03\x04", 45 if large else 0, _UTF8, 0, 0, _DATE_1980, crc,
                size32, size32, len(encoded), len(extra),
            )
            + encoded
            + extra
        )  # fmt: skip
        self._write(data)
        self._write(tail)
        self._directory.append((encoded, crc, size, start))

    def finish(self):
        begin = self._position
        for entry in self._directory:
            self._write(_directory_entry(*entry))
        size, count = self._position - begin, len(self._directory)
        if begin >= _MAX32 or size >= _MAX32 or count >= _MAX16:
            end = self._position
            self._write(
                struct.pack(
                    "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, begin
                )
                + struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
            )
        self._write(
            struct.pack(
                "<4s4H2LH", b"PK\x05\x06", 0, 0, min(count, _MAX16), min(count, _MAX16),
                min(size, _MAX32), min(begin, _MAX32), 0,
            )
        )  # fmt: skip


def _directory_entry(name, crc, size, start):
    large = [value for value in (size, size, start) if value >= _MAX32]
    extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    version = 45 if large else 0
    return (
        struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", version, version, _UTF8, 0, 0, _DATE_1980, crc,
            min(size, _MAX32), min(size, _MAX32), len(name), len(extra), 0, 0, 0, 0,
            min(start, _MAX32),
        )
        + name
        + extra
    )  # fmt: skip
