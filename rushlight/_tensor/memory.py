"""Methods of Tensor about memory and devices, and the element-wise ones that call back into
Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight import _C, _utils
from rushlight._C import Tensor, UntypedStorage
from rushlight._C import memory_format as _memory_format
from rushlight._tensor import method
from rushlight.storage import TypedStorage
from rushlight.types import Device


@method
def storage(self: Tensor) -> TypedStorage:
    """The elements under the tensor, as PyTorch's old TypedStorage.

    Example:
        >>> rl.arange(4)[2:].storage().tolist()
        [0, 1, 2, 3]
    """
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


@method
def storage_type(self: Tensor) -> type[TypedStorage]:
    """The class of the tensor's storage.

    Example:
        >>> rl.ones(2).storage_type().__name__
        'TypedStorage'
    """
    return TypedStorage


@method
def _typed_storage(self):
    return self.storage()


@method
def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, for those who only read.

    Example:
        >>> x = rl.ones(2)
        >>> x.const_data_ptr() == x.data_ptr()
        True
    """
    return self.data_ptr()


@method
def share_memory_(self: Tensor) -> Tensor:
    """Moves the memory under the tensor, in place, to where other processes can map it.

    Example:
        >>> rl.ones(2).share_memory_().is_shared()
        True
    """
    if self.device.type != "cuda":
        _C._share_storage(self.untyped_storage())
    return self


@method
def is_shared(self: Tensor) -> bool:
    """True when other processes see the same memory, or can: all memory of GPUs can be sent.

    Example:
        >>> rl.ones(2).is_shared()
        False
    """
    return self.device.type == "cuda" or self.untyped_storage().is_shared()


@method
def cuda(
    self: Tensor,
    device: Device = None,
    non_blocking: bool = False,
    memory_format: _memory_format = _C.preserve_format,
) -> Tensor:
    """A copy on a CUDA device; the tensor itself if it is there; raises where there is none.

    Arguments:
        device: which GPU; None is the current one.
        non_blocking: do not wait for a copy from pinned memory.
        memory_format: of the copy.

    Example:
        >>> x = rl.ones(2)
        >>> (x.cuda(0) if rl.cuda.is_available() else x).cpu()
        tensor([1., 1.])
    """
    target = _C.device("cuda") if device is None else _C.device(device)
    if target.type != "cuda":
        raise _C.DeviceError(f"cuda: expected a CUDA device, got {target}")
    return self.to(target, non_blocking=non_blocking, memory_format=memory_format)


@method
def pin_memory(self: Tensor, device: Device = None) -> Tensor:
    """A copy in memory that a CUDA device reads directly; needs such a device.

    Arguments:
        device: accepted; the current GPU is meant.

    Example:
        >>> x = rl.ones(2)
        >>> (x.pin_memory(device="cuda") if rl.cuda.is_available() else x).sum()
        tensor(2.)
    """
    return _C._cuda.pin(self)


@method
def is_pinned(self: Tensor, device: Device = None) -> bool:
    """Whether the memory is pinned for a CUDA device.

    Arguments:
        device: accepted; the current GPU is meant.

    Example:
        >>> rl.ones(2).is_pinned(device="cuda")
        False
    """
    return _C._cuda.is_pinned(self)


@method
def record_stream(self: Tensor, stream: Any) -> None:
    """Tells the allocator that a stream uses this tensor, too: its memory waits for that stream.

    Arguments:
        stream: a `cuda.Stream` that the tensor was not made in.

    Example:
        >>> try:
        ...     rl.ones(2).record_stream(None)
        ... except RuntimeError as error:
        ...     print(error)
        record_stream: needs a tensor on a CUDA device, this one is on cpu
    """
    if not self.is_cuda:
        raise _C.DeviceError(
            f"record_stream: needs a tensor on a CUDA device, this one is on {self.device}"
        )
    _C._cuda.record_stream(self, stream._key)


@method
def set_(
    self: Tensor,
    source: Tensor | UntypedStorage | TypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Puts the memory of a tensor or storage under this tensor, in the given geometry.

    Arguments:
        source: a tensor or a storage; None leaves an empty tensor.
        storage_offset: where the first element is.
        size, stride: the geometry; None takes the source's.

    Example:
        >>> x, y = rl.empty(0), rl.arange(6.0)
        >>> x.set_(y, 1, (2, 2), (2, 1))
        tensor([[1., 2.],
                [3., 4.]])
    """
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


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors have the same geometry over the same memory.

    Arguments:
        tensor: the other one.

    Example:
        >>> x = rl.ones(4)
        >>> x.is_set_to(x.view(4)), x.is_set_to(x.view(2, 2))
        (True, False)
    """
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


@method
def apply_(self: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replaces each element by callable(element). Slow: Python runs for every one.

    Arguments:
        callable: a function of one number.

    Example:
        >>> rl.arange(3.0).apply_(lambda v: v * 10)
        tensor([ 0., 10., 20.])
    """
    return _call_per_element("apply_", self, callable)


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replaces each element by callable(element, element of tensor).

    Arguments:
        tensor: the other operand.
        callable: a function of two numbers.

    Example:
        >>> rl.arange(3.0).map_(rl.ones(3), lambda a, b: a + b)
        tensor([1., 2., 3.])
    """
    return _call_per_element("map_", self, callable, tensor)


@method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replaces each element by callable(element, element of x, element of y).

    Arguments:
        x, y: the other operands.
        callable: a function of three numbers.

    Example:
        >>> rl.arange(3.0).map2_(rl.ones(3), rl.ones(3), lambda a, b, c: a + b + c)
        tensor([2., 3., 4.])
    """
    return _call_per_element("map2_", self, callable, x, y)


@method
def to_device(self: Tensor, device: Device, /, *, stream: Any = None) -> Tensor:
    """The Array API standard's name of ``to``.

    Arguments:
        device: where the result shall be.
        stream: accepted; copies are made in the current stream.

    Example:
        >>> rl.ones(2).to_device("cpu", stream=None).device
        device(type='cpu')
    """
    return self.to(device)


def _refuse_device(kind):
    def move(
        self: Tensor,
        device: Device = None,
        non_blocking: bool = False,
        memory_format: _memory_format = _C.preserve_format,
    ) -> Tensor:
        raise _C.DeviceError(
            f"{kind}: there is no such device; this Rushlight has the CPU and CUDA"
        )

    move.__name__ = kind
    move.__doc__ = "Not available: there is no such device; this Rushlight has the CPU and CUDA."
    return move


for _name in "xpu ipu mtia".split():
    setattr(Tensor, _name, _refuse_device(_name))
