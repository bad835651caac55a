"""Tensors that lie on several ranks: DTensor, its placements, and how to make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight._names.missing import fill
from rushlight.distributed._placements import Partial, Placement, Replicate, Shard
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor
from rushlight.distributed.tensor._modules import distribute_module

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]


def _distributed(make: Any, size: Any, options: dict[str, Any]) -> DTensor:
    mesh = options.pop("device_mesh", None)
    placements: Sequence[Placement] | None = options.pop("placements", None)
    requires_grad = options.pop("requires_grad", False)
    if len(size) == 1 and isinstance(size[0], (list, tuple)):
        size = tuple(size[0])
    made = distribute_tensor(make(size, **options), mesh, placements)
    return made.requires_grad_(requires_grad)


def zeros(*size: Any, **options: Any) -> DTensor:
    """A DTensor of zeros; ``device_mesh`` and ``placements`` say how it lies."""
    return _distributed(rushlight.zeros, size, options)


def ones(*size: Any, **options: Any) -> DTensor:
    """A DTensor of ones; ``device_mesh`` and ``placements`` say how it lies."""
    return _distributed(rushlight.ones, size, options)


def empty(*size: Any, **options: Any) -> DTensor:
    """A DTensor of any values; ``device_mesh`` and ``placements`` say how it lies."""
    return _distributed(rushlight.empty, size, options)


def rand(*size: Any, **options: Any) -> DTensor:
    """A DTensor of random numbers, those of the first rank, from 0 to 1."""
    return _distributed(rushlight.rand, size, options)


def randn(*size: Any, **options: Any) -> DTensor:
    """A DTensor of normal random numbers, those of the first rank."""
    return _distributed(rushlight.randn, size, options)


def full(size: Any, fill_value: Any, **options: Any) -> DTensor:
    """A DTensor of one value; ``device_mesh`` and ``placements`` say how it lies."""

    def make(shape: Any, **more: Any) -> Any:
        return rushlight.full(shape, fill_value, **more)

    return _distributed(make, (size,), options)


fill(globals())
