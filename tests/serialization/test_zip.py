"""The zip writer and reader, against Python's zipfile."""

import io
import zipfile

import pytest

from rushlight.serialization._sources import FileSource
from rushlight.serialization._zip_reader import ZipReader
from rushlight.serialization._zip_writer import ZipWriter


def opened(file):
    file.seek(0)
    return ZipReader(FileSource(file))


def test_more_records_than_16_bits_count():
    out = io.BytesIO()
    writer = ZipWriter(out)
    names = ["data.pkl", *(f"data/{i}" for i in range(66_000))]
    for name in names:
        writer.write_record(f"a/{name}", name.encode())
    writer.finish()
    with zipfile.ZipFile(out) as file:
        assert len(file.namelist()) == len(names)
        assert file.read("a/data/65999") == b"data/65999"
    reader = opened(out)
    assert len(reader.records) == len(names) and reader.read("data/65999") == b"data/65999"


def test_records_with_64_bit_fields():
    """What other writers put there when they do not know sizes in advance."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in ("a/data.pkl", "a/data/0"):
            with file.open(zipfile.ZipInfo(name), "w", force_zip64=True) as record:
                record.write(name.encode())
    reader = opened(out)
    assert reader.read("data/0") == b"a/data/0"


def test_sizes_after_the_bytes():
    """Streams have their sizes behind the record and zeros before it."""

    class Stream(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data)
            return len(data)

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/data.pkl", b"x" * 1000)
        file.writestr("a/other", b"y")
    reader = ZipReader(FileSource(io.BytesIO(stream.data)))
    assert reader.read("data.pkl") == b"x" * 1000


def test_other_folders_and_comments_do_no_harm():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.comment = b"made by hand"
        file.writestr("__MACOSX/._data.pkl", b"?")
        file.writestr("a/", b"")
        file.writestr("a/data.pkl", b"p")
        file.writestr("a/data/0", b"bytes")
    reader = opened(out)
    assert reader.read("data.pkl") == b"p" and reader.size("data/0") == 5
    assert "data/1" not in reader
    with pytest.raises(RuntimeError, match="no record 'data/1'"):
        reader.read("data/1")
    target = bytearray(3)
    reader.read_into("data/0", memoryview(target))
    assert target == b"byt"


def test_padding_is_zeros():
    out = io.BytesIO()
    writer = ZipWriter(out)
    writer.write_record("a/data.pkl", b"abc", padding=5)
    writer.finish()
    assert zipfile.ZipFile(out).read("a/data.pkl") == b"abc" + bytes(5)
