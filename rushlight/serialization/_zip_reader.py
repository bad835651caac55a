"""Reads the records of a zip archive that may be damaged or made to do harm.

Everything that the archive says is checked against the bytes that are there before it is used:
records may not overlap or lie outside the file, names may not repeat, and compressed records
(which PyTorch does not write, but people do) may not swell beyond a limit. Nothing is ever
extracted to the disk; names that only make sense there are refused.
"""

import struct
import zlib

from rushlight.serialization._pieces import checksum

_END = b"PK\x05\x06"
_END64_LOCATOR = b"PK\x06\x07"
_END64 = b"PK\x06\x06"
_ENTRY = b"PK\x01\x02"
_LOCAL = b"PK\x03\x04"
_MAX32, _MAX16 = 0xFFFFFFFF, 0xFFFF
_STORED, _DEFLATED = 0, 8

# Compressed records: together they may unpack to this much, or to so many times their size.
_FREE_UNPACKED = 1 << 24
_MOST_TIMES = 64


class Record:
    __slots__ = ("crc", "header", "method", "name", "packed", "size")

    def __init__(self, name, method, crc, packed, size, header):
        self.name, self.method, self.crc = name, method, crc
        self.packed, self.size, self.header = packed, size, header


def broken(what):
    return RuntimeError(f"load: the zip archive is damaged: {what}")


class ZipReader:
    """The records under the archive's one folder, by their names in it."""

    def __init__(self, source, check_crc=True):
        self._source = source
        self._check_crc = check_crc
        self._unpacked_left = _FREE_UNPACKED
        found = self._directory()
        self._check_places(found)
        folder = _folder_of([record.name for record in found])
        self.records = {
            record.name[len(folder) :]: record for record in found if record.name.startswith(folder)
        }

    def __contains__(self, name):
        return name in self.records

    # The directory.

    def _directory(self):
        begin, size, count = self._find_directory()
        data = self._source.read(begin, size)
        self._limit = begin
        found, names, at = [], set(), 0
        for _ in range(count):
            record, at = _parse_entry(data, at)
            if record.name in names:
                raise broken(f"it has two records named {record.name!r}")
            names.add(record.name)
            found.append(record)
        if not found:
            raise broken("it has no records")
        return found

    def _find_directory(self):
        source = self._source
        tail = min(source.length, 22 + _MAX16)
        data = source.read(source.length - tail, tail)
        at = data.rfind(_END)
        if at < 0 or len(data) - at < 22:
            raise broken("its directory, at the end of the file, is missing; was it cut short?")
        _, disk, disk2, _, count, size, begin, _ = struct.unpack_from("<4s4H2LH", data, at)
        if disk or disk2:
            raise broken("it claims to be one of several parts")
        end = source.length - tail + at
        if count == _MAX16 or size == _MAX32 or begin == _MAX32:
            count, size, begin = self._find_directory64(end, count, size, begin)
        if begin + size > end:
            raise broken(f"its directory of {size} bytes at {begin} does not fit into the file")
        if count * 46 > size:
            raise broken(f"its directory of {size} bytes cannot hold {count} records")
        return begin, size, count

    def _find_directory64(self, end, count, size, begin):
        if end < 20:
            return count, size, begin
        signature, _, place, _ = struct.unpack("<4sLQL", self._source.read(end - 20, 20))
        if signature != _END64_LOCATOR:
            return count, size, begin  # the numbers are what they are
        fields = struct.unpack("<4sQ2H2L4Q", self._source.read(place, 56))
        if fields[0] != _END64:
            raise broken("its 64-bit directory end is not where it should be")
        return fields[7], fields[8], fields[9]

    def _check_places(self, found):
        end, before = 0, None
        for record in sorted(found, key=lambda record: record.header):
            if record.header < end:
                raise broken(f"the records {before!r} and {record.name!r} overlap")
            # 30 bytes of header and the name come first; more may.
            end = record.header + 30 + len(record.name.encode()) + record.packed
            if end > self._limit:
                raise broken(f"the record {record.name!r} reaches beyond the records' part")
            before = record.name

    # Records.

    def _data_offset(self, record):
        header = self._source.read(record.header, 30)
        if header[:4] != _LOCAL:
            raise broken(f"the record {record.name!r} does not start where the directory says")
        name_length, extra_length = struct.unpack_from("<2H", header, 26)
        name = self._source.read(record.header + 30, name_length)
        if name != record.name.encode():
            raise broken(f"the record {record.name!r} has another name at its place")
        offset = record.header + 30 + name_length + extra_length
        if offset + record.packed > self._limit:
            raise broken(f"the record {record.name!r} reaches beyond the records' part")
        return offset

    def _record(self, name):
        record = self.records.get(name)
        if record is None:
            raise RuntimeError(f"load: the file has no record {name!r}; it is incomplete")
        return record

    def size(self, name):
        return self._record(name).size

    def read(self, name, at_most=None):
        """The bytes of a record."""
        record = self._record(name)
        if at_most is not None and record.size > at_most:
            raise broken(
                f"the record {name!r} has {record.size} bytes, at most {at_most} make sense"
            )
        if record.method == _DEFLATED:
            data = self._unpack(record)
        else:
            data = self._source.read(self._data_offset(record), record.packed)
        self._verify(record, data)
        return data

    def read_into(self, name, target):
        """Fills a memoryview with the first bytes of a record."""
        record = self._record(name)
        if record.method == _DEFLATED or len(target) != record.size:
            target[:] = self.read(name)[: len(target)]
            return
        self._source.read_into(self._data_offset(record), target)
        self._verify(record, target)

    def view(self, name):
        """A record where it lies in a memory map, unchecked; None if it is compressed."""
        record = self._record(name)
        if record.method == _DEFLATED:
            return None
        return self._source.view(self._data_offset(record), record.size)

    def _verify(self, record, data):
        # PyTorch leaves checksums out, as zero, when it is told to.
        if self._check_crc and record.crc and checksum(data) != record.crc:
            raise broken(
                f"the bytes of {record.name!r} do not match their checksum "
                "(serialization.set_crc32_options(False) would read them as they are)"
            )

    def _unpack(self, record):
        allowed = max(self._unpacked_left, record.packed * _MOST_TIMES)
        if record.size > allowed:
            raise RuntimeError(
                f"load: the compressed record {record.name!r} would grow from {record.packed} to "
                f"{record.size} bytes, which looks like an attack. If you trust the file, unzip it "
                "and zip it again without compression (zip -0)"
            )
        packed = self._source.read(self._data_offset(record), record.packed)
        inflate = zlib.decompressobj(-15)
        try:
            data = inflate.decompress(packed, record.size + 1)
        except zlib.error as error:
            raise broken(f"the record {record.name!r} cannot be decompressed: {error}") from None
        if len(data) != record.size:
            raise broken(f"the record {record.name!r} does not unpack to {record.size} bytes")
        self._unpacked_left -= min(record.size, self._unpacked_left)
        return data


def _parse_entry(data, at):
    if len(data) - at < 46 or data[at : at + 4] != _ENTRY:
        raise broken("its directory is cut short or overwritten")
    fields = struct.unpack_from("<4s6H3L5H2L", data, at)
    flags, method, crc, packed, size = fields[3], fields[4], fields[7], fields[8], fields[9]
    name_length, extra_length, comment_length = fields[10:13]
    header = fields[16]
    end = at + 46 + name_length + extra_length + comment_length
    if end > len(data):
        raise broken("its directory is cut short")
    name = _checked_name(data[at + 46 : at + 46 + name_length])
    extra = data[at + 46 + name_length : at + 46 + name_length + extra_length]
    size, packed, header = _large_values(name, extra, size, packed, header)
    if flags & 1:
        raise broken(f"the record {name!r} is encrypted")
    if method not in (_STORED, _DEFLATED):
        raise broken(f"the record {name!r} is compressed in a way ({method}) that is not supported")
    if method == _STORED and size != packed:
        raise broken(f"the record {name!r} has two sizes, {size} and {packed}")
    return Record(name, method, crc, packed, size, header), end


def _large_values(name, extra, size, packed, header):
    values, wanted = [size, packed, header], None
    if _MAX32 not in values:
        return values
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wanted = extra[at + 4 : at + 4 + length]
            break
        at += 4 + length
    if wanted is None:
        return values
    for i, value in enumerate(values):
        if value == _MAX32:
            if len(wanted) < 8:
                raise broken(f"the record {name!r} lacks its 64-bit sizes")
            values[i] = int.from_bytes(wanted[:8], "little")
            wanted = wanted[8:]
    return values


def _is_drive(part):
    return len(part) == 2 and part[1] == ":"


def _folder_of(names):
    """The folder with the pickle; tools that zip again may have added others."""
    found = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
    if "program.json" in names:
        raise RuntimeError("load: the file is a program (.rush); rushlight.jit.load reads it")
    if len(found) != 1:
        raise RuntimeError(
            f"load: expected a zip archive with one record FOLDER/data.pkl, found {len(found)}; "
            "this is not a file that save wrote"
        )
    return found[0][: -len("data.pkl")]


def _checked_name(data):
    try:
        name = data.decode("utf-8")
    except UnicodeDecodeError:
        raise broken(f"a record's name is not UTF-8: {data[:40]!r}") from None
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or _is_drive(parts[0]):
        raise RuntimeError(
            f"load: the zip archive has a record named {name[:80]!r}, which points outside the "
            "archive; refused"
        )
    return name
