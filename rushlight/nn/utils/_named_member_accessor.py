"""Tensors of a module, replaced by their names; any tensor may stand for a parameter."""

from __future__ import annotations

from rushlight import _C
from rushlight._names.missing import names_missing_from
from rushlight.nn.modules.module import Module

_ABSENT = object()


def swap_tensor(
    module: Module, name: str, tensor: _C.Tensor, allow_missing: bool = False
) -> _C.Tensor:
    """Puts a tensor where `module` has its parameter, buffer or attribute of this name, and returns
    the one that was there. With `allow_missing` there need be none, and a later swap with what was
    returned takes the new one away again."""
    if not isinstance(module, Module):
        raise TypeError(f"swap_tensor: expected a Module, got {type(module).__name__}")
    if tensor is not _ABSENT and tensor is not None and not isinstance(tensor, _C.Tensor):
        raise TypeError(f"swap_tensor: expected a tensor for '{name}', got {type(tensor).__name__}")
    if "." in name:
        raise KeyError(f"swap_tensor: '{name}' is not the name of one tensor; it has a dot in it")
    if name == "":
        raise KeyError("swap_tensor: the name is empty")
    if name in module._parameters:
        place = module._parameters
    elif name in module._buffers:
        place = module._buffers
    elif hasattr(module, name) and not isinstance(getattr(module, name), _C.Tensor):
        raise TypeError(f"swap_tensor: '{name}' of {type(module).__name__} is no tensor")
    else:
        place = module.__dict__
        if name not in place and not allow_missing:
            raise AttributeError(f"swap_tensor: {type(module).__name__} has no tensor '{name}'")
    was = place.get(name, _ABSENT)
    if tensor is _ABSENT:
        place.pop(name, None)
    else:
        place[name] = tensor
    return was


__getattr__ = names_missing_from(__name__)
