"""Storages: the memory under tensors. TypedStorage is PyTorch's old view of it, by elements."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any, overload

from rushlight import _C
from rushlight._C import Tensor, UntypedStorage
from rushlight._tensor.legacy_types import PREFIXES
from rushlight.types import Device, FileLike, Number, Self, _dtype, _layout

__all__ = ["TypedStorage", "UntypedStorage"]

StorageBase = UntypedStorage  # PyTorch derives the one from the other; here is one class

_int = int  # TypedStorage has a method of this name


def _bytes_of(storage):
    return _C._tensor_from_storage(storage, _C.uint8, 0, (storage.nbytes(),), (1,))


_copy_on_the_host, _fill_on_the_host = UntypedStorage.copy_, UntypedStorage.fill_
_list_on_the_host = UntypedStorage.tolist


def _method(function):
    setattr(UntypedStorage, function.__name__, function)


@_method
def to(self: Any, *, device: Device, non_blocking: bool = False) -> UntypedStorage:
    """The bytes on a device: itself if they are there."""
    there = _bytes_of(self).to(device, non_blocking=non_blocking)
    return self if there.device == self.device else there.untyped_storage()


@_method
def cpu(self: Any) -> UntypedStorage:
    """The bytes on the CPU."""
    return self.to(device="cpu")


@_method
def cuda(self: Any, device: Device = None, non_blocking: bool = False) -> UntypedStorage:
    """The bytes on a GPU, by default the current one."""
    there = _bytes_of(self).cuda(device, non_blocking)
    return self if there.device == self.device else there.untyped_storage()


@_method
def pin_memory(self: Any, device: Device = "cuda") -> UntypedStorage:
    """The bytes in memory that a GPU reads directly."""
    return self if self.is_pinned() else _bytes_of(self).pin_memory().untyped_storage()


@_method
def is_pinned(self: Any, device: Device = "cuda") -> bool:
    """Is the memory pinned?"""
    return _bytes_of(self).is_pinned()


@_method
def share_memory_(self: Any) -> UntypedStorage:
    """Moves the bytes to where other processes can map them. (Those of GPUs can be sent as is.)"""
    if not self.is_cuda:
        _C._share_storage(self)
    return self


@_method
def copy_(self: Any, source: Any, non_blocking: bool = False) -> UntypedStorage:
    """Copies the bytes of another storage."""
    on_hosts = isinstance(source, UntypedStorage) and not (self.is_cuda or source.is_cuda)
    if on_hosts or not isinstance(source, UntypedStorage) or len(self) != len(source):
        return _copy_on_the_host(self, source, non_blocking)  # raises where it cannot
    _bytes_of(self).copy_(_bytes_of(source), non_blocking)
    return self


@_method
def fill_(self: Any, value: Any) -> UntypedStorage:
    """Sets every byte."""
    if not self.is_cuda:
        return _fill_on_the_host(self, value)
    _bytes_of(self).fill_(value)
    return self


@_method
def tolist(self: Any) -> list[int]:
    """The bytes as a list of ints."""
    return _list_on_the_host(self.cpu())


class TypedStorage:
    """The elements of a storage, all of one dtype.

    Arguments:
        args: how many elements, or their values.
        wrap_storage: an UntypedStorage to use the memory of.
        dtype: of the elements; None is the default dtype.
        device: where the memory is.

    Example:
        >>> storage = rl.TypedStorage([1, 2, 3], dtype=rl.int32)
        >>> storage.tolist(), storage.nbytes()
        ([1, 2, 3], 12)
        >>> rl.TypedStorage(wrap_storage=storage.untyped(), dtype=rl.int32)[1]
        2
    """

    def __init__(
        self,
        *args: Any,
        wrap_storage: Any = None,
        dtype: _dtype | None = None,
        device: Device = None,
    ) -> None:
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif args and not isinstance(args[0], _int):
            values = _C.tensor(args[0], dtype=self.dtype, device=device)
            self._untyped_storage = values.untyped_storage()
        else:
            nbytes = (args[0] if args else 0) * self.dtype.itemsize
            self._untyped_storage = UntypedStorage(
                nbytes, device="cpu" if device is None else device
            )

    def _tensor(self):
        n = self.size()
        return _C._tensor_from_storage(self._untyped_storage, self.dtype, 0, (n,), (1,))

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def size(self) -> builtins.int:
        return self.nbytes() // self.dtype.itemsize

    def __sizeof__(self) -> Any:
        return object.__sizeof__(self) + self.nbytes()

    def nbytes(self) -> builtins.int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> builtins.int:
        return self.dtype.itemsize

    def data_ptr(self) -> builtins.int:
        return self._untyped_storage.data_ptr()

    @property
    def device(self) -> _C.device:
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> builtins.bool:
        return self._untyped_storage.is_cuda

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def __len__(self) -> builtins.int:
        return self.size()

    @overload
    def __getitem__(self, index: builtins.int) -> Number: ...
    @overload
    def __getitem__(self, index: slice) -> TypedStorage: ...
    def __getitem__(self, index: builtins.int | slice) -> Number | TypedStorage:
        part = self._tensor()[index]
        if not isinstance(index, slice):
            return part.item()
        return TypedStorage(wrap_storage=part.clone().untyped_storage(), dtype=self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tensor()[index] = value

    def __iter__(self) -> Iterator[Number]:
        return iter(self.tolist())

    def tolist(self) -> list[Number]:
        return self._tensor().tolist()

    def fill_(self, value: Any) -> Self:
        self._tensor().fill_(value)
        return self

    def copy_(self, source: Self, non_blocking: builtins.bool | None = False) -> Self:
        self._tensor().copy_(source._tensor(), non_blocking)
        return self

    def clone(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def resize_(self, size: builtins.int) -> Self:
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def share_memory_(self) -> Self:
        self._untyped_storage.share_memory_()
        return self

    def _to(self, dtype):
        values = self._tensor().to(dtype, copy=True)
        return TypedStorage(wrap_storage=values.untyped_storage(), dtype=dtype)

    def float(self) -> TypedStorage:
        return self._to(_C.float32)

    def double(self) -> TypedStorage:
        return self._to(_C.float64)

    def half(self) -> TypedStorage:
        return self._to(_C.float16)

    def long(self) -> TypedStorage:
        return self._to(_C.int64)

    def int(self) -> TypedStorage:
        return self._to(_C.int32)

    def byte(self) -> TypedStorage:
        return self._to(_C.uint8)

    def bool(self) -> TypedStorage:
        return self._to(_C.bool)

    def _wrapping(self, storage):
        same = storage is self._untyped_storage
        return self if same else TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        return self._wrapping(self._untyped_storage.cpu())

    def cuda(self, device: Device = None, non_blocking: builtins.bool = False) -> Self:
        return self._wrapping(self._untyped_storage.cuda(device, non_blocking))

    def to(self, *, device: Device, non_blocking: builtins.bool = False) -> Self:
        return self._wrapping(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    def pin_memory(self, device: Device = "cuda") -> TypedStorage:
        return self._wrapping(self._untyped_storage.pin_memory(device))

    @overload
    def type(self, dtype: None = None) -> str: ...
    @overload
    def type(self, dtype: _dtype | str) -> TypedStorage: ...
    def type(self, dtype: _dtype | str | None = None) -> str | TypedStorage:
        prefix = next(k for k, v in _NAMES.items() if getattr(_C, v) == self.dtype)
        return f"rushlight.{prefix}Storage" if dtype is None else self._to(dtype)

    def pickle_storage_type(self) -> str:
        return next(f"{k}Storage" for k, v in _NAMES.items() if getattr(_C, v) == self.dtype)

    def is_shared(self) -> builtins.bool:
        return self._untyped_storage.is_shared()

    def is_pinned(self) -> builtins.bool:
        return self._untyped_storage.is_pinned()

    def __reduce__(self) -> tuple[Any, ...]:
        return _typed, (self._untyped_storage, self.dtype)

    def __repr__(self) -> str:
        values = "\n".join(f" {v}" for v in self.tolist())
        about = f"dtype={self.dtype}, device={self.device}"
        return f"{values}\n[rushlight.storage.TypedStorage({about}) of size {len(self)}]"


def _typed(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype)


class _LegacyStorageMeta(type):
    """FloatStorage and its relatives make TypedStorages of one dtype."""

    def __call__(
        cls,
        *args: Any,
        wrap_storage: Any = None,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> Any:
        if wrap_storage is not None:
            args = ()
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype, device=device)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype  # type: ignore[attr-defined]


def _from_buffer(
    cls: Any,
    buffer: Any,
    byte_order: str = "native",
    count: int = -1,
    offset: int = 0,
    *,
    dtype: _dtype | None = None,
) -> TypedStorage:
    """A storage with a copy of a buffer's bytes (from offset on, count elements)."""
    import sys

    size = cls.dtype.itemsize
    data = bytearray(memoryview(buffer).cast("B"))[offset:]
    if count >= 0:
        data = data[: count * size]
    if len(data) % size:
        raise ValueError(f"{cls.__name__}.from_buffer: {len(data)} bytes are no whole number of "
                         f"elements of {size} bytes")  # fmt: skip
    if byte_order not in ("native", "little", "big"):
        raise ValueError(f"{cls.__name__}.from_buffer: byte_order must be 'native', 'little' or "
                         f"'big', got {byte_order!r}")  # fmt: skip
    if byte_order not in ("native", sys.byteorder) and size > 1:
        words = [data[i : i + size][::-1] for i in range(0, len(data), size)]
        data = bytearray(b"".join(words))
    if not data:
        return cls(0)
    values = _C.frombuffer(data, dtype=cls.dtype).clone()
    return TypedStorage(wrap_storage=values.untyped_storage(), dtype=cls.dtype)


def _make_class(name, dtype):
    space = {"dtype": dtype, "is_cuda": False, "is_sparse": False, "__module__": "rushlight"}
    space["from_buffer"] = space["_from_buffer"] = classmethod(_from_buffer)
    space["__doc__"] = f"""Storages of {dtype}: calling the class makes a TypedStorage.

    Arguments:
        args: how many elements, or their values.
        wrap_storage: an UntypedStorage to use the memory of.
        device: where the memory is.
        dtype: accepted; it is {dtype} in any case.

    Example:
        >>> memory = rl.zeros(2, dtype={str(dtype).replace("rushlight", "rl")}).untyped_storage()
        >>> storage = rl.{name}(wrap_storage=memory)
        >>> storage.dtype, len(storage), len(rl.{name}([1, 0, 1]))
        ({dtype}, 2, 3)
    """
    return _LegacyStorageMeta(name, (), space)


# Storages are older than the unsigned types.
_NAMES = {k: v for k, v in PREFIXES.items() if not k.startswith("UInt")}
CLASSES = {f"{k}Storage": _make_class(f"{k}Storage", getattr(_C, v)) for k, v in _NAMES.items()}


def _load_from_bytes(b):
    """What PyTorch's pickles of storages call."""
    import io

    from rushlight.serialization import load

    return load(io.BytesIO(b), weights_only=False)


def map_file(filename: FileLike, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
    """A storage over the bytes of a file, mapped into memory.

    With shared=True writes reach the file, which is made (or made longer) if nbytes asks for more
    than it has; else they stay in this process.
    """
    import mmap
    import os

    if shared:
        with open(filename, "r+b" if os.path.exists(filename) else "w+b") as file:
            if os.fstat(file.fileno()).st_size < nbytes:
                os.ftruncate(file.fileno(), nbytes)
            size = nbytes or os.fstat(file.fileno()).st_size
            memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_WRITE) if size else b""
    else:
        with open(filename, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if nbytes > size:
                raise RuntimeError(f"from_file: {filename!r} has {size} bytes, not {nbytes}")
            size = nbytes or size
            memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) if size else b""
    return _C.frombuffer(memory, dtype=_C.uint8).untyped_storage() if size else UntypedStorage(0)


def _from_file(
    filename: str,
    shared: bool = False,
    size: int = 0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of `size` elements over a file.

    Arguments:
        filename: the file's path.
        shared: writing to the tensor writes to the file, which is made longer if needed.
        size: how many elements.
        dtype, layout, device, pin_memory, requires_grad: of the result.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "numbers")
        >>> _ = path.write_bytes(bytes([1, 2, 3]))
        >>> rl.from_file(str(path), size=3, dtype=rl.uint8)
        tensor([1, 2, 3], dtype=rushlight.uint8)
    """
    dtype = _C.get_default_dtype() if dtype is None else dtype
    storage = map_file(filename, shared, size * dtype.itemsize)
    count = size or storage.nbytes() // dtype.itemsize
    found: Tensor = _C._tensor_from_storage(storage, dtype, 0, (count,), (1,))  # type: ignore[misc]
    return found.requires_grad_(requires_grad)


def _legacy_from_file(cls: Any, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
    """A storage of `size` elements over a file."""
    return TypedStorage(
        wrap_storage=map_file(filename, shared, size * cls.dtype.itemsize), dtype=cls.dtype
    )


for _class in CLASSES.values():
    _class.from_file = classmethod(_legacy_from_file)
UntypedStorage.from_file = staticmethod(map_file)  # type: ignore[method-assign]
