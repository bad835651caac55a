"""Tensors and storages as PyTorch's files have them.

A tensor is a call of a rebuild function on a storage and geometry; a storage is a persistent id,
and its bytes are a record beside the pickle. Of each storage only the part is written that the
saved tensors reach: from the first byte that one of them uses to the last. Offsets and lengths are
therefore known only at the end, and are `Later`s.
"""

import pickle
import sys
from collections import OrderedDict

from rushlight import _C
from rushlight._C import Tensor, UntypedStorage
from rushlight._quantized.schemes import QuantizationScheme
from rushlight._tensor.copying import _attributes
from rushlight.serialization._devices import location_tag
from rushlight.serialization._names import (
    STORAGE_OF_DTYPE,
    STORAGE_OF_INTEGERS,
    last_part,
)
from rushlight.serialization._pickle_writer import Later, PickleWriter
from rushlight.storage import TypedStorage


class SavedStorage:
    """A storage of the saved object: its key in the file, and the bytes of it that are in use."""

    def __init__(self, key, storage, dtype, names):
        self.key = key
        self.storage = storage  # kept, so that no other storage gets its address meanwhile
        # Of the first tensor over it; without a class of that dtype it is one of bytes.
        self.class_name = names.get(dtype)
        self.dtype = dtype if self.class_name else None
        self.location = location_tag(storage)
        self._first = self._end = None
        self._align = 1 if dtype is None else dtype.itemsize

    def use(self, start, end, itemsize):
        """Bytes [start, end) are needed, by elements of a size."""
        self._align = max(self._align, itemsize)
        if end > start:
            self._first = start if self._first is None else min(self._first, start)
            self._end = end if self._end is None else max(self._end, end)

    @property
    def start(self):
        # Every element size divides the larger ones, so all offsets stay whole.
        return 0 if self._first is None else self._first // self._align * self._align

    @property
    def nbytes(self):
        """The length of the record: whole elements."""
        if self._end is None:
            return 0
        return -(-(self._end - self.start) // self._align) * self._align

    def numel(self):
        return self.nbytes // (1 if self.dtype is None else self.dtype.itemsize)

    def data(self):
        """The record's bytes, or nearly: the last element may be cut off by the storage's end."""
        there = min(self.nbytes, self.storage.nbytes() - self.start)
        if there <= 0:
            return memoryview(b"")
        if self.storage.device.type == "cpu":
            return _C._own_memory(self.storage)[self.start : self.start + there]
        whole = _C._tensor_from_storage(self.storage, _C.uint8, self.start, (there,), (1,))
        return memoryview(whole.cpu())


class TensorWriter(PickleWriter):
    """Writes objects with tensors in them; afterwards `storages` are the records to write."""

    legacy = False  # PyTorch's format before 1.6 names one thing more for each storage

    def __init__(self):
        super().__init__()
        self.storages = {}

    def write_special(self, obj):
        if isinstance(obj, Tensor) and obj.is_quantized:
            self._write_quantized(obj)
        elif isinstance(obj, Tensor) and obj.is_nested:
            self._write_nested(obj)
        elif isinstance(obj, Tensor) and obj.layout is not _C.strided:
            self._write_sparse(obj)
        elif isinstance(obj, Tensor):
            if type(obj).__reduce_ex__ not in _our_reduces():
                return False  # the subclass has its own way
            self._write_tensor(obj)
        elif isinstance(obj, TypedStorage | UntypedStorage):
            self._write_storage_object(obj)
        elif isinstance(obj, _C.dtype | _C.memory_format):
            self.put_global("torch", last_part(obj))
        elif isinstance(obj, QuantizationScheme):
            self.put_global("torch", obj.name)
        elif isinstance(obj, _C.device):
            args = (obj.type,) if obj.index is None else (obj.type, obj.index)
            self._call(obj, "torch", "device", args)
        elif isinstance(obj, _C.Size):
            self._call(obj, "torch", "Size", (tuple(obj),))
        elif isinstance(obj, _C.layout):
            self._call(obj, "torch.serialization", "_get_layout", (f"torch.{last_part(obj)}",))
        else:
            return False
        return True

    def _call(self, obj, module, name, args):
        self.put_global(module, name)
        self.write(args)
        self.put(pickle.REDUCE)
        self.memoize(obj)

    # Storages.

    def _saved(self, storage, dtype, names=STORAGE_OF_DTYPE):
        if storage.device.type == "meta":
            raise RuntimeError("save: a storage on the meta device has no bytes to save")
        entry = self.storages.get(storage._cdata)
        if entry is None:
            entry = SavedStorage(str(len(self.storages)), storage, dtype, names)
            self.storages[storage._cdata] = entry
        return entry

    def _put_storage(self, entry):
        self.put(pickle.MARK)
        self.write("storage")
        if entry.dtype is None and self.legacy:
            self.put_global("torch", "ByteStorage")  # that format knows no untyped one
        elif entry.dtype is None:
            self.put_global("torch.storage", "UntypedStorage")
        else:
            self.put_global("torch", entry.class_name)
        self.write(entry.key)
        self.write(entry.location)
        self.put(Later(entry.numel))
        if self.legacy:
            self.put(pickle.NONE)
        self.put(pickle.TUPLE + pickle.BINPERSID)

    def _write_storage_object(self, obj):
        typed = isinstance(obj, TypedStorage)
        storage = obj.untyped() if typed else obj
        dtype = obj.dtype if typed else None
        if typed and dtype not in STORAGE_OF_DTYPE:
            raise RuntimeError(f"save: PyTorch's format has no storage of {dtype}; save the tensor")
        entry = self._saved(storage, dtype)
        self._check_class(entry, STORAGE_OF_DTYPE.get(dtype))
        entry.use(0, storage.nbytes(), 1)
        self._put_storage(entry)

    def _check_class(self, entry, class_name):
        if entry.class_name != class_name:
            raise RuntimeError(
                "save: the same memory is saved as storages or tensors of two dtypes "
                f"({entry.class_name or 'bytes'} and {class_name or 'bytes'}); save a clone of one"
            )

    # Tensors.

    def _write_tensor(self, tensor):
        state, slots = _attributes(tensor)
        if issubclass(type(tensor), _parameter_class()):
            self._write_parameter(tensor, (state, slots) if slots else state)
        elif type(tensor) is Tensor and not state and not slots:
            self._put_function(tensor)
            self._put_args(tensor)
            self.put(pickle.REDUCE)
        else:
            self.put_global("torch._tensor", "_rebuild_from_type_v2")
            self.put(pickle.MARK)
            self._put_function(tensor)
            self.write(type(tensor))
            self._put_args(tensor)
            self.write((state, slots) if slots else state)
            self.put(pickle.TUPLE + pickle.REDUCE)
        self.memoize(tensor)

    def _write_sparse(self, tensor):
        if isinstance(tensor, _parameter_class()):
            self._write_parameter(tensor, None)
            self.memoize(tensor)
        else:
            args = tensor.__reduce_ex__(2)[1]
            self._call(tensor, "torch._utils", "_rebuild_sparse_tensor", args)

    def _write_nested(self, tensor):
        values, offsets, lengths, ragged_idx, jagged = tensor.__reduce_ex__(2)[1]
        if jagged:
            parts = {"values": values.detach(), "offsets": offsets, "lengths": lengths,
                     "_ragged_idx": ragged_idx, "_metadata_cache": {},
                     "requires_grad": tensor.requires_grad}  # fmt: skip
            place = "torch.nested._internal.nested_tensor"
            return self._call(tensor, place, "_rebuild_njt", (parts,))
        parts = [part.detach().contiguous() for part in tensor.unbind()]
        starts = [sum(p.numel() for p in parts[:i]) for i in range(len(parts))]
        buffer = _C.cat([part.reshape(-1) for part in parts])
        lists = [[list(p.shape) for p in parts], [list(p.stride()) for p in parts], starts]
        args = (buffer, *(_C.tensor(x, dtype=_C.int64) for x in lists))
        self._call(tensor, "torch._utils", "_rebuild_nested_tensor", args)

    def _write_parameter(self, parameter, state):
        self.put_global("torch._utils", "_rebuild_parameter" + ("_with_state" if state else ""))
        self.put(pickle.MARK)
        self.write(parameter.data)
        self.write(parameter.requires_grad)
        self._put_no_hooks()
        if state:
            self.write(state)
        self.put(pickle.TUPLE + pickle.REDUCE)

    def _put_no_hooks(self):
        self.write(OrderedDict)
        self.put(pickle.EMPTY_TUPLE + pickle.REDUCE)

    def _is_named_by_storage(self, tensor):
        entry = self._saved(tensor.untyped_storage(), tensor.dtype)
        return entry.class_name is not None and (
            entry.class_name == STORAGE_OF_DTYPE.get(tensor.dtype)
        )

    def _put_function(self, tensor):
        if tensor.device.type == "meta":
            name = "_rebuild_meta_tensor_no_storage"
        elif self._is_named_by_storage(tensor):
            name = "_rebuild_tensor_v2"
        else:
            name = "_rebuild_tensor_v3"
        self.put_global("torch._utils", name)

    def _put_args(self, tensor):
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        if tensor.device.type == "meta":
            return self.write((tensor.dtype, size, stride, tensor.requires_grad))
        entry = self._saved(tensor.untyped_storage(), tensor.dtype)
        self.put(pickle.MARK)
        self._put_place(entry, tensor)
        self.write(tensor.requires_grad)
        self._put_no_hooks()
        if not self._is_named_by_storage(tensor):
            self.write(tensor.dtype)
        return self.put(pickle.TUPLE)

    def _put_place(self, entry, tensor):
        """The storage, and where in it the tensor lies."""
        size, stride, item = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
        start = tensor.storage_offset() * item
        last = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        empty = tensor.numel() == 0
        entry.use(start, start if empty else start + (last + 1) * item, item)
        self._put_storage(entry)
        for value in (0 if empty else Later(lambda: (start - entry.start) // item), size, stride):
            self.write(value)

    def _write_quantized(self, tensor):
        from rushlight._quantized.tensor import plain

        integers, quantizer = plain(tensor), tensor._quantizer
        names = STORAGE_OF_INTEGERS
        entry = self._saved(integers.untyped_storage(), integers.dtype, names)
        self._check_class(entry, names[integers.dtype])
        self.put_global("torch._utils", "_rebuild_qtensor")
        self.put(pickle.MARK)
        self._put_place(entry, integers)
        self.put(pickle.MARK)
        self.write(quantizer.scheme)
        self.write(quantizer.scale)
        self.write(quantizer.zero_point)
        if quantizer.axis is not None:
            self.write(quantizer.axis)
        self.put(pickle.TUPLE)
        self.write(False)
        self._put_no_hooks()
        self.put(pickle.TUPLE + pickle.REDUCE)
        self.memoize(tensor)


def _parameter_class():
    """nn.Parameter, once somebody imported it; nothing is one before."""
    module = sys.modules.get("rushlight.nn.parameter")
    return getattr(module, "Parameter", ())


def _our_reduces():
    parameter = _parameter_class()
    return (Tensor.__reduce_ex__, *([parameter.__reduce_ex__] if parameter else []))
