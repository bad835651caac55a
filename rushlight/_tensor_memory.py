"""Methods of Tensor about memory and devices that PyTorch programs call, and the element-wise ones
that call back into Python."""

from rushlight import _C, _utils
from rushlight._C import Tensor, UntypedStorage
from rushlight._tensor import _method
from rushlight.storage import TypedStorage


@_method
def cuda(self, device=None, non_blocking=False, memory_format=_C.preserve_format):
    """A copy on a CUDA device; raises where there is none."""
    target = _C.device("cuda") if device is None else _C.device(device)
    if target.type != "cuda":
        raise _C.DeviceError(f"cuda: expected a CUDA device, got {target}")
    return self.to(target, non_blocking=non_blocking, memory_format=memory_format)


@_method
def pin_memory(self, device=None):
    """A copy in memory that a CUDA device reads directly; needs such a device."""
    return _C._cuda.pin(self)


@_method
def is_pinned(self, device=None):
    """Whether the memory is pinned for a CUDA device."""
    return _C._cuda.is_pinned(self)


@_method
def record_stream(self, stream):
    """Tells the allocator that a stream uses this tensor, too: its memory waits for that stream."""
    if not self.is_cuda:
        raise _C.DeviceError(
            f"record_stream: needs a tensor on a CUDA device, this one is on {self.device}"
        )
    _C._cuda.record_stream(self, stream._key)


@_method
def to_dense(self, dtype=None, *, masked_grad=True):
    """The tensor itself: there are no sparse ones."""
    return self if dtype is None else self.to(dtype)


@_method
def new(self, *args, device=None):
    """A tensor of this dtype: from sizes (uninitialised), from data, or empty."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype != self.dtype:
            raise TypeError(f"new: expected a tensor of {self.dtype}, got {args[0].dtype}")
        return args[0].detach()
    return _C._legacy_tensor("new", self.dtype, args, self.device if device is None else device)


@_method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Puts the memory of a tensor or storage under this tensor, in the given geometry."""
    if source is None:
        found = _C.empty(0, dtype=self.dtype, device=self.device)
    elif isinstance(source, Tensor):
        if source.dtype != self.dtype:
            raise _C.DTypeError(f"set_: the source is {source.dtype}, this tensor is {self.dtype}")
        found = source.detach()
        if size is not None:
            strides = _C.empty(size, device="meta").stride() if stride is None else stride
            found = found.as_strided(size, strides, storage_offset)
    elif isinstance(source, UntypedStorage | TypedStorage):
        found = _over_storage(self, source, storage_offset, size, stride)
    else:
        raise TypeError(f"set_: expected a tensor or a storage, got {type(source).__name__}")
    self.data = found
    return self


def _over_storage(self, source, offset, size, stride):
    if isinstance(source, TypedStorage):
        if source.dtype != self.dtype:
            raise _C.DTypeError(
                f"set_: the storage holds {source.dtype}, this tensor is {self.dtype}"
            )
        source = source.untyped()
    if size is None:
        size = (source.nbytes() // self.element_size(),)
    if stride is None:
        stride = _C.empty(size, device="meta").stride()
    return _utils.tensor_from_storage(source, self.dtype, offset, size, stride)


@_method
def is_set_to(self, tensor):
    """Whether both tensors have the same geometry over the same memory."""
    same_memory = self.untyped_storage()._cdata == tensor.untyped_storage()._cdata
    return (
        same_memory
        and self.storage_offset() == tensor.storage_offset()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def _call_per_element(op, self, function, *others):
    if self.requires_grad:
        raise RuntimeError(
            f"{op}: a tensor that requires grad cannot be written by a Python function"
        )
    columns = [t.detach().expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    values = [function(*row) for row in zip(*columns, strict=True)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).view(self.shape))


@_method
def apply_(self, callable):
    """Replaces each element by callable(element). Slow: Python runs for every one."""
    return _call_per_element("apply_", self, callable)


@_method
def map_(self, tensor, callable):
    """Replaces each element by callable(element, element of tensor)."""
    return _call_per_element("map_", self, callable, tensor)


@_method
def map2_(self, x, y, callable):
    """Replaces each element by callable(element, element of x, element of y)."""
    return _call_per_element("map2_", self, callable, x, y)
