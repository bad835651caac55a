"""Cutting batches for devices, and putting results together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._utils import _as_device
from rushlight.types import Device

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """The inputs cut along dim, one piece per device; what is no tensor goes to all."""
    devices = [_as_device(d) for d in target_gpus]

    def pieces(x):
        if isinstance(x, _C.Tensor):
            parts = x.chunk(len(devices), dim)
            return [
                part.to(device, non_blocking=True)
                for part, device in zip(parts, devices, strict=False)
            ]
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return [type(x)(*items) for items in zip(*map(pieces, x), strict=False)]
        if isinstance(x, tuple | list) and x:
            return [type(x)(items) for items in zip(*map(pieces, x), strict=False)]
        if isinstance(x, dict) and x:
            parts = zip(*map(pieces, x.values()), strict=False)
            return [type(x)(zip(x, items, strict=True)) for items in parts]
        return [x] * len(devices)

    return pieces(inputs)


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[int | Device],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """scatter for positional and named arguments."""
    cut = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(cut), len(named))
    cut += [()] * (count - len(cut))
    named += [{}] * (count - len(named))
    return tuple(cut), tuple(named)


def gather(outputs: Any, target_device: int | Device, dim: int = 0) -> Any:
    """The outputs of several devices as one, along dim."""
    if not outputs:
        raise ValueError("gather: there are no outputs to join")
    first = outputs[0]
    if isinstance(first, _C.Tensor):
        place = _as_device(target_device)
        if all(t.ndim == 0 for t in outputs) and dim == 0:
            warnings.warn("gather: numbers have no dim 0 to be joined along: they become a vector",
                          stacklevel=2)  # fmt: skip
            outputs = [t.unsqueeze(0) for t in outputs]
        return _C.cat([t.to(place, non_blocking=True) for t in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    items = [gather(list(part), target_device, dim) for part in zip(*outputs, strict=True)]
    return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
