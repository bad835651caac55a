"""rushlight.save: an object as a file in PyTorch's format."""

import os
import struct
import sys

from rushlight.serialization._atomic import replacing
from rushlight.serialization._options import data_is_skipped, get_crc32_options
from rushlight.serialization._pickle_writer import PickleWriter
from rushlight.serialization._pieces import PIECE
from rushlight.serialization._tensor_writer import TensorWriter
from rushlight.serialization._zip_writer import ALIGNMENT, ZipWriter

_FOLDER = "archive"
_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001


def save(obj, f, pickle_module, pickle_protocol, zipped, without_byteorder):
    if type(pickle_protocol) is not int or not 2 <= pickle_protocol <= 5:
        raise ValueError(
            f"save: pickle_protocol must be 2, 3, 4 or 5, got {pickle_protocol!r} (the file is "
            "written with the opcodes of protocol 2, which all of them have)"
        )
    is_path = isinstance(f, str | os.PathLike)
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            f"save: expected a path or a file opened for writing in binary mode; "
            f"{type(f).__name__} has no 'write'"
        )
    if getattr(pickle_module, "__name__", "pickle") == "pickle":
        writer = TensorWriter()
    else:
        from rushlight.serialization._foreign_writer import ForeignWriter

        writer = ForeignWriter(pickle_module, pickle_protocol)
    writer.legacy = not zipped
    writer.dump(obj)
    write = _write_zip if zipped else _write_legacy
    if is_path:
        with replacing(f) as file:
            write(file, writer, without_byteorder)
    else:
        write(f, writer, without_byteorder)


def _write_zip(file, writer, without_byteorder):
    archive = ZipWriter(file, with_crc=get_crc32_options())
    archive.write_record(f"{_FOLDER}/data.pkl", writer.getvalue())
    archive.write_record(f"{_FOLDER}/.storage_alignment", str(ALIGNMENT).encode())
    if not without_byteorder:
        archive.write_record(f"{_FOLDER}/byteorder", sys.byteorder.encode())
    for saved in writer.storages.values():
        data = b"" if data_is_skipped() else saved.data()
        archive.write_record(f"{_FOLDER}/data/{saved.key}", data, saved.nbytes - len(data))
    archive.write_record(f"{_FOLDER}/version", b"3\n")
    archive.finish()


def _write_legacy(file, writer, without_byteorder):
    about = {
        "protocol_version": _LEGACY_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for value in (_MAGIC, _LEGACY_VERSION, about):
        file.write(_pickled(value))
    file.write(writer.getvalue())
    file.write(_pickled([saved.key for saved in writer.storages.values()]))
    for saved in writer.storages.values():
        data = saved.data()
        file.write(struct.pack("<q", saved.numel()))
        for begin in range(0, len(data), PIECE):
            file.write(data[begin : begin + PIECE])
        file.write(bytes(saved.nbytes - len(data)))


def _pickled(value):
    writer = PickleWriter()
    writer.dump(value)
    return writer.getvalue()
