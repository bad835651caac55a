"""The methods of Tensor that are written in Python: copying, pickling and the legacy names."""

from __future__ import annotations

import copyreg
from copy import deepcopy

from rushlight import _C, _utils
from rushlight._C import Tensor
from rushlight._legacy import dtype_of_typename, typename_of
from rushlight.storage import TypedStorage


def _method(function):
    setattr(Tensor, function.__name__, function)
    return function


def _attributes(tensor):
    """What the user stored on the object, and the slots of its subclass."""
    state = dict(getattr(tensor, "__dict__", {}))
    slots = {}
    for name in copyreg._slotnames(type(tensor)):
        if hasattr(tensor, name):
            slots[name] = getattr(tensor, name)
    return state, slots


def _restore_attributes(tensor, state, slots):
    for name, value in {**state, **slots}.items():
        setattr(tensor, name, value)
    return tensor


@_method
def __deepcopy__(self, memo):
    """A copy with memory of its own; tensors that shared memory share it again."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "deepcopy: only tensors created by the user (leaves of the graph) can be deep-copied; "
            "use tensor.detach().clone() for the others"
        )
    storage = self.untyped_storage()
    key = ("rushlight.UntypedStorage", storage._cdata)
    if key not in memo:
        memo[key] = storage.clone()
    out = _utils.tensor_from_storage(
        memo[key], self.dtype, self.storage_offset(), self.size(), self.stride()
    )
    if type(self) is not Tensor:
        out = Tensor._make_subclass(type(self), out)
    if self.requires_grad:
        out.requires_grad_()
    memo[id(self)] = out
    if self.grad is not None:
        out.grad = deepcopy(self.grad, memo)
    state, slots = _attributes(self)
    return _restore_attributes(out, deepcopy(state, memo), deepcopy(slots, memo))


@_method
def __reduce_ex__(self, protocol):
    """Pickles bytes and geometry; a view brings the whole storage under it."""
    if not self.is_leaf and self.requires_grad:
        # As PyTorch does: the values travel, the graph stays.
        self = self.detach().requires_grad_()
    stays = self.device.type in ("cpu", "meta") or _utils.sending.keeps_gpu
    host = self if stays else self.cpu()
    args = (
        host.untyped_storage() if self.device.type != "meta" else None,
        self.dtype,
        host.storage_offset(),
        tuple(self.shape),
        host.stride(),
        self.requires_grad,
        str(self.device),
    )
    state, slots = _attributes(self)
    if type(self) is Tensor and not state and not slots:
        return _utils.rebuild_tensor, args
    return _utils.rebuild_subclass, (type(self), args, state, slots)


@_method
def __dir__(self):
    return sorted({*dir(type(self)), *getattr(self, "__dict__", {})})


@_method
def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


@_method
def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions call on their result."""
    return _C.from_numpy(array) if array.ndim or not return_scalar else _C.as_tensor(array)


@_method
def storage(self):
    """The elements under the tensor, as PyTorch's old TypedStorage."""
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


@_method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A new tensor from data, with this tensor's dtype and device unless others are given."""
    dtype = self.dtype if dtype is None else dtype
    device = self.device if device is None else device
    if isinstance(data, Tensor):
        out = data.detach().to(device, dtype, copy=True)
        return out.requires_grad_(requires_grad)
    return _C.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


@_method
def new(self, *args, device=None):
    """PyTorch's first way to make a tensor of the same type: from sizes or from data."""
    return _C._legacy_tensor("new", self.dtype, args, self.device if device is None else device)


def _type(self, dtype=None, non_blocking=False):
    """The legacy name of the tensor's type, or the tensor converted to a dtype."""
    if dtype is None:
        return typename_of(self.dtype, self.device)
    if not isinstance(dtype, _C.dtype):
        dtype = dtype_of_typename(dtype)
    return self if dtype == self.dtype else self.to(dtype)


@_method
def share_memory_(self):
    """Moves the memory under the tensor, in place, to where other processes can map it."""
    if self.device.type != "cuda":
        _C._share_storage(self.untyped_storage())
    return self


@_method
def is_shared(self):
    """True when other processes see the same memory, or can: all memory of GPUs can be sent."""
    return self.device.type == "cuda" or self.untyped_storage().is_shared()


Tensor.type = _type  # under its own name it would hide the builtin from the functions above


def _rebuild_from_type_v2(func, new_type, args, state):
    """What PyTorch's pickles of Tensor subclasses call."""
    out = func(*args)
    if type(out) is not new_type:
        out = out.as_subclass(new_type)
    if isinstance(state, tuple):
        return _restore_attributes(out, *state)
    return _restore_attributes(out, state or {}, {})


@_method
def matrix_exp(self):
    """The exponential of square matrices."""
    from rushlight.linalg import matrix_exp

    return matrix_exp(self)


@_method
def orgqr(self, input2):
    """linalg.householder_product(self, input2)."""
    from rushlight.linalg import householder_product

    return householder_product(self, input2)
