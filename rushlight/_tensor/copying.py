"""Tensors copied, pickled, and made after the type of others."""

from __future__ import annotations

import copyreg
from copy import deepcopy
from typing import Any

from rushlight import _C, _utils
from rushlight._C import Tensor
from rushlight._tensor import method
from rushlight.types import Device, _dtype


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


@method
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


@method
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


@method
def __setstate__(self, state):
    """Takes over what a pickled tensor held; files older than PyTorch 0.4 call it."""
    if self.requires_grad and not self.is_leaf:
        raise RuntimeError("__setstate__: only leaves of the graph take over a state")
    if len(state) == 4:  # without requires_grad and hooks: a plain tensor
        self.set_(*state)
        return
    self.set_(*state[:-2] if len(state) == 6 else state[0])
    self.requires_grad_(state[-2] if len(state) == 6 else state[1])


def _rebuild_from_type_v2(func, new_type, args, state):
    """What PyTorch's pickles of Tensor subclasses call."""
    out = func(*args)
    if type(out) is not new_type:
        out = out.as_subclass(new_type)
    if isinstance(state, tuple):
        return _restore_attributes(out, *state)
    return _restore_attributes(out, state or {}, {})


@method
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: _dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor from data, with this tensor's dtype and device unless others are given.

    Arguments:
        data: numbers, lists of them, or a tensor, which is copied.
        dtype, device: of the new tensor; None takes this one's.
        requires_grad: record what is done with it.

    Example:
        >>> rl.ones(1, dtype=rl.float64).new_tensor([1, 2], requires_grad=True)
        tensor([1., 2.], dtype=rushlight.float64, requires_grad=True)
    """
    dtype = self.dtype if dtype is None else dtype
    device = self.device if device is None else device
    if isinstance(data, Tensor):
        out = data.detach().to(device, dtype, copy=True)
        return out.requires_grad_(requires_grad)
    return _C.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


@method
def new(self: Tensor, *args: Any, device: Device = None) -> Tensor:
    """PyTorch's first way to make a tensor of the same type: from sizes (uninitialised), from data,
    or from a tensor, whose memory and graph it then has.

    Arguments:
        device: of the new tensor; None takes this one's.

    Example:
        >>> rl.ones(1).new([1, 2], device="cpu")
        tensor([1., 2.])
    """
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype != self.dtype:
            raise TypeError(f"new: expected a tensor of {self.dtype}, got {args[0].dtype}")
        return args[0].view_as(args[0])
    return _C._legacy_tensor("new", self.dtype, args, self.device if device is None else device)
