"""Reading safetensors."""

from __future__ import annotations

import mmap
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.serialization._sources import MappedSource
from rushlight.types import Device, FileLike, Self
from rushlight.utils.safetensors._format import NAME_OF_DTYPE, SafetensorError, parse_header

_FRAMEWORKS = ("pt", "torch", "pytorch", "rushlight")


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file; copies.

    Arguments:
        data: what a file holds.

    Example:
        >>> rl.utils.safetensors.load(rl.utils.safetensors.save({"x": rl.ones(2)}))
        {'x': tensor([1., 1.])}
    """
    view = memoryview(data).cast("B")
    entries, _, start = parse_header(lambda at, n: bytes(view[at : at + n]), len(view))
    return {name: _tensor(entry, bytearray(_part(view, start, entry))) for name, entry in
            entries.items()}  # fmt: skip


def load_file(filename: FileLike, device: Device = "cpu") -> dict[str, Tensor]:
    """The tensors of a file. On the CPU they lie in the file, mapped into memory and private: it
    is read where they are used, and not written when they are.

    Arguments:
        filename: a path.
        device: where tensors go.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "weights.safetensors")
        >>> rl.utils.safetensors.save_file({"x": rl.ones(2)}, path)
        >>> rl.utils.safetensors.load_file(path, device="cpu")
        {'x': tensor([1., 1.])}
    """
    with safe_open(filename, framework="pt", device=device) as file:
        return {name: file.get_tensor(name) for name in file.offset_keys()}


def _part(view, start, entry):
    return view[start + entry.begin : start + entry.end]


def _tensor(entry, buffer):
    if entry.begin == entry.end:
        return _C.empty(entry.shape, dtype=entry.dtype)
    flat = _C.frombuffer(buffer, dtype=_C.uint8)
    if flat.data_ptr() % entry.dtype.itemsize:
        flat = flat.clone()
    storage = flat.untyped_storage()
    strides = _C.empty(entry.shape, device="meta").stride()
    return _C._tensor_from_storage(storage, entry.dtype, 0, entry.shape, strides)


class safe_open:
    """An open file, for reading some of its tensors or parts of them; a context manager.

    Arguments:
        filename: the file.
        framework: "pt", "torch", "pytorch" or "rushlight"; tensors are Rushlight's in any case.
        device: where tensors go.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> path = folder / "two.safetensors"
        >>> rl.utils.safetensors.save_file({"a": rl.zeros(2), "b": rl.ones(3)}, path)
        >>> with rl.utils.safetensors.safe_open(path, framework="pt") as saved:
        ...     print(saved.keys(), saved.get_tensor("b"))
        ['a', 'b'] tensor([1., 1., 1.])
    """

    def __init__(self, filename: FileLike, framework: str = "pt", device: Any = "cpu") -> None:
        if framework not in _FRAMEWORKS:
            raise SafetensorError(
                f"safe_open: framework must be one of {_FRAMEWORKS}, got {framework!r}"
            )
        self._device = _C.device(device)
        try:
            self._source: Any = MappedSource(filename, mmap.MAP_PRIVATE)
        except RuntimeError:
            raise SafetensorError(f"safe_open: {str(filename)!r} is empty") from None
        self._entries, self._metadata, self._start = parse_header(
            self._source.read, self._source.length
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._source = None  # tensors keep the mapping

    def _entry(self, name):
        if self._source is None:
            raise SafetensorError("safe_open: the file is closed")
        if name not in self._entries:
            raise SafetensorError(f"safe_open: the file does not contain a tensor {name!r}")
        return self._entries[name]

    def keys(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """The names, in the order of their bytes."""
        return sorted(self._entries, key=lambda name: self._entries[name].begin)

    def metadata(self) -> dict[str, str] | None:
        """The dict of strings in the header; None without one."""
        return None if self._metadata is None else dict(self._metadata)

    def get_tensor(self, name: str) -> Tensor:
        """One tensor."""
        return self._mapped(self._entry(name)).to(self._device)

    def get_slice(self, name: str) -> _Slice:
        """One tensor to take parts of; only they are read."""
        return _Slice(self._entry(name), self._mapped, self._device)

    def _mapped(self, entry):
        length = entry.end - entry.begin
        return _tensor(entry, self._source.view(self._start + entry.begin, length))


class _Slice:
    def __init__(self, entry, mapped, device):
        self._entry, self._mapped, self._device = entry, mapped, device

    def get_shape(self):
        return list(self._entry.shape)

    def get_dtype(self):
        return NAME_OF_DTYPE[self._entry.dtype]

    def __getitem__(self, index):
        return self._mapped(self._entry)[index].contiguous().to(self._device)
