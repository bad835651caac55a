"""Storages: the memory under tensors. TypedStorage is PyTorch's old view of it, by elements."""

from rushlight import _C
from rushlight._C import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


class TypedStorage:
    """The elements of a storage, all of one dtype."""

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None):
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif args and not isinstance(args[0], int):
            values = _C.tensor(args[0], dtype=self.dtype, device=device)
            self._untyped_storage = values.untyped_storage()
        else:
            nbytes = (args[0] if args else 0) * self.dtype.itemsize
            self._untyped_storage = UntypedStorage(nbytes, device=device)

    def _tensor(self):
        n = self.size()
        return _C._tensor_from_storage(self._untyped_storage, self.dtype, 0, (n,), (1,))

    def untyped(self):
        return self._untyped_storage

    def size(self):
        return self.nbytes() // self.dtype.itemsize

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        return self._untyped_storage.is_cuda

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def __len__(self):
        return self.size()

    def __getitem__(self, index):
        part = self._tensor()[index]
        if not isinstance(index, slice):
            return part.item()
        return TypedStorage(wrap_storage=part.clone().untyped_storage(), dtype=self.dtype)

    def __setitem__(self, index, value):
        self._tensor()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self):
        return self._tensor().tolist()

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        self._tensor().copy_(source._tensor())
        return self

    def clone(self):
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def share_memory_(self):
        _C._share_storage(self._untyped_storage)
        return self

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def is_pinned(self):
        return self._untyped_storage.is_pinned()

    def __reduce__(self):
        return _typed, (self._untyped_storage, self.dtype)

    def __repr__(self):
        values = "\n".join(f" {v}" for v in self.tolist())
        about = f"dtype={self.dtype}, device={self.device}"
        return f"{values}\n[rushlight.storage.TypedStorage({about}) of size {len(self)}]"


def _typed(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype)
