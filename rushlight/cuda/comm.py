"""Moving tensors between GPUs: copies in the order of the devices' current streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._utils import _as_device
from rushlight.cuda._devices import current_device, device_count
from rushlight.types import Device

__all__ = [
    "broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter",
]  # fmt: skip


def _one_of(name, devices, out):
    if (devices is None) == (out is None):
        raise RuntimeError(f"{name}: give either devices or out, not both and not neither")


def broadcast(
    tensor: Tensor, devices: Iterable[Device] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """The tensor on each device: itself where it is, copies elsewhere; or copied into ``out``."""
    _one_of("broadcast", devices, out)
    if out is not None:
        return tuple(o.copy_(tensor, non_blocking=True) for o in out)
    assert devices is not None
    return tuple(tensor.to(_as_device(d), non_blocking=True) for d in devices)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Iterable[Device], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """The tensors on each device, a tuple per device. (Copies of any size are queued as they are:
    ``buffer_size`` is accepted.)"""
    return [tuple(t.to(_as_device(d), non_blocking=True) for t in tensors) for d in devices]


def reduce_add(inputs: Iterable[Tensor], destination: Device = None) -> Tensor:
    """The sum of tensors of one shape, on one device."""
    inputs = list(inputs)
    if not inputs:
        raise RuntimeError("reduce_add: expected at least one tensor")
    for i, t in enumerate(inputs):
        if t.shape != inputs[0].shape:
            raise ValueError(
                f"reduce_add: tensor {i} has shape {tuple(t.shape)}, tensor 0 "
                f"{tuple(inputs[0].shape)}"
            )
    device = _as_device(current_device() if destination is None else destination)
    total = inputs[0].to(device, copy=True)
    for t in inputs[1:]:
        total += t.to(device, non_blocking=True)
    return total


def reduce_add_coalesced(
    inputs: Iterable[Iterable[Tensor]], destination: Device = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """reduce_add for lists of tensors: the first ones of all lists, the second ones, ..."""
    return tuple(reduce_add(each, destination) for each in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor,
    devices: Sequence[Device] | None = None,
    chunk_sizes: Iterable[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """The tensor cut along dim, a piece for each device (or for each of ``out``)."""
    if out is not None:
        _one_of("scatter", devices, out)
        sizes = [o.shape[dim] for o in out]
        return tuple(
            o.copy_(part, non_blocking=True)
            for o, part in zip(out, tensor.split(sizes, dim), strict=True)
        )
    devices = range(device_count()) if devices is None else devices
    if chunk_sizes is None:
        parts = tensor.chunk(len(devices), dim)
    else:
        parts = tensor.split(list(chunk_sizes), dim)
    return tuple(
        part.to(_as_device(d), non_blocking=True) for part, d in zip(parts, devices, strict=False)
    )


def gather(
    tensors: Sequence[Tensor],
    dim: int = 0,
    destination: Device = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The tensors joined along dim on one device, by default the current one."""
    if out is not None and destination is not None:
        raise RuntimeError("gather: give either destination or out, not both")
    if out is not None:
        device = out.device
    else:
        device = _as_device(current_device() if destination is None else destination)
    parts = [t.to(device, non_blocking=True) for t in tensors]
    return _C.cat(parts, dim, out=out) if out is not None else _C.cat(parts, dim)
