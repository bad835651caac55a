"""Long stretches of bytes, piece by piece: one call into a library cannot be interrupted, and
Ctrl-C is answered between the calls."""

import zlib

PIECE = 1 << 24


def checksum(data):
    """The CRC-32 of bytes or a memoryview."""
    view, crc = memoryview(data), 0
    for begin in range(0, len(view), PIECE):
        crc = zlib.crc32(view[begin : begin + PIECE], crc)
    return crc
