"""Copies of a model on several devices that learn as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from rushlight._utils import _as_device
from rushlight.types import Device

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

    _M = TypeVar("_M", bound=Module)

__all__ = ["replicate"]


def replicate(network: _M, devices: Sequence[int | Device], detach: bool = False) -> list[_M]:
    """The model once for each device. Parameters are copies that pass their gradients on to those
    of the model (with ``detach`` they do not); on the model's own device they are its own, and so
    are the buffers."""
    modules = list(network.modules())
    return [_copy_on(_as_device(d), network, modules, detach) for d in devices]


def _copy_on(device, network, modules, detach):
    moved = {}  # what modules share, their copies share

    def there(tensor, detach=False):
        if tensor is None:
            return None
        if id(tensor) not in moved:
            source = tensor.detach() if detach else tensor
            moved[id(tensor)] = source.to(device, non_blocking=True)
        return moved[id(tensor)]

    copies = {id(m): m._replicate_for_data_parallel() for m in modules}
    for module in modules:
        copy = copies[id(module)]
        for key, value in module._parameters.items():
            copy._parameters[key] = there(value, detach)
        for key, value in module._buffers.items():
            copy._buffers[key] = there(value)
        for key, value in module._modules.items():
            copy._modules[key] = None if value is None else copies[id(value)]
    return copies[id(network)]
