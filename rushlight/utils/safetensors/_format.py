"""The format: 8 bytes with the header's length, the header in JSON, the tensors' bytes.

The header maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counting from
the header's end, and "__metadata__" to a map of strings. The tensors cover the rest of the file
without holes or overlaps; a reader that checks this cannot be led outside the file.
"""

import json
import math

from rushlight import _C

MOST_HEADER_BYTES = 100_000_000

NAME_OF_DTYPE = {
    _C.bool: "BOOL",
    _C.uint8: "U8",
    _C.int8: "I8",
    _C.int16: "I16",
    _C.uint16: "U16",
    _C.float16: "F16",
    _C.bfloat16: "BF16",
    _C.int32: "I32",
    _C.uint32: "U32",
    _C.float32: "F32",
    _C.float64: "F64",
    _C.int64: "I64",
    _C.uint64: "U64",
    _C.complex64: "C64",
    _C.float8_e4m3fn: "F8_E4M3",
    _C.float8_e5m2: "F8_E5M2",
    _C.float8_e4m3fnuz: "F8_E4M3FNUZ",
    _C.float8_e5m2fnuz: "F8_E5M2FNUZ",
    _C.float8_e8m0fnu: "F8_E8M0",
}
DTYPE_OF_NAME = {name: dtype for dtype, name in NAME_OF_DTYPE.items()}


class SafetensorError(RuntimeError):
    """The file does not follow the format."""


class Entry:
    """Where a tensor lies: bytes [begin, end) after the header."""

    __slots__ = ("begin", "dtype", "end", "shape")

    def __init__(self, dtype, shape, begin, end):
        self.dtype, self.shape, self.begin, self.end = dtype, shape, begin, end


def header_bytes(tensors, metadata):
    """The header and the names in the order of their bytes, for contiguous tensors."""
    # Large elements first: every tensor then begins at a multiple of its element size.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = dict(metadata)
    for name in names:
        tensor = tensors[name]
        end = at + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": NAME_OF_DTYPE[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(8 + len(text)) % 64)  # so that the bytes of the first tensor are aligned
    if len(text) > MOST_HEADER_BYTES:
        raise ValueError(f"save_file: the header would have {len(text)} bytes; the format's limit "
                         f"is {MOST_HEADER_BYTES}")  # fmt: skip
    return len(text).to_bytes(8, "little") + text, names


def parse_header(read, length):
    """({name: Entry}, metadata or None, where the bytes begin) of a file of `length` bytes."""
    if length < 8:
        raise SafetensorError("safetensors: the file is too short to have a header")
    size = int.from_bytes(read(0, 8), "little")
    if size > MOST_HEADER_BYTES:
        raise SafetensorError(
            f"safetensors: the header claims {size} bytes; at most {MOST_HEADER_BYTES} are allowed"
        )
    if 8 + size > length:
        raise SafetensorError(
            f"safetensors: the header claims {size} bytes and the file has {length}; is it cut "
            "short, or no safetensors file?"
        )
    header = _parse_json(read(8, size))
    metadata = _checked_metadata(header.pop("__metadata__", None))
    entries = {name: _checked_entry(name, about) for name, about in header.items()}
    _check_cover(entries, length - 8 - size)
    return entries, metadata, 8 + size


def _parse_json(data):
    if data[:1] != b"{":
        raise SafetensorError("safetensors: the header does not begin with '{'")
    try:
        header = json.loads(data.decode("utf-8"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"safetensors: the header is not valid JSON: {error}") from None
    if type(header) is not dict:
        raise SafetensorError("safetensors: the header is not a map")
    return header


def _without_repeats(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.80} is there twice")
    return out


def _checked_metadata(metadata):
    if metadata is None:
        return None
    if type(metadata) is not dict or not all(type(value) is str for value in metadata.values()):
        raise SafetensorError("safetensors: the metadata must map strings to strings")
    return metadata


def _checked_entry(name, about):
    what = f"safetensors: the tensor {name!r:.80}"
    if type(about) is not dict or set(about) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorError(f"{what} must have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
    if type(dtype) is not str or dtype not in DTYPE_OF_NAME:
        raise SafetensorError(f"{what} has the dtype {dtype!r:.40}, which Rushlight does not have")
    for part in (shape, offsets):
        if type(part) is not list or not all(type(n) is int and 0 <= n < 1 << 62 for n in part):
            raise SafetensorError(f"{what}: shape and offsets must be lists of whole numbers")
    if len(offsets) != 2 or len(shape) > 64:
        raise SafetensorError(f"{what} has {len(offsets)} offsets and {len(shape)} dimensions")
    dtype, (begin, end) = DTYPE_OF_NAME[dtype], offsets
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise SafetensorError(
            f"{what} of shape {shape} and {dtype} does not have the {end - begin} bytes that its "
            "offsets give it"
        )
    return Entry(dtype, tuple(shape), begin, end)


def _check_cover(entries, length):
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            what = "overlaps the one before" if entry.begin < at else "leaves a hole before it"
            raise SafetensorError(f"safetensors: the tensor {name!r:.80} {what}")
        at = entry.end
    if at != length:
        raise SafetensorError(
            f"safetensors: the tensors take {at} bytes and the file has {length} for them; it is "
            "cut short or damaged"
        )
