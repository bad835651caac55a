"""NVIDIA's library for several GPUs: not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight._C import Tensor
from rushlight._missing import absent

__all__ = ["is_available", "version"]


def is_available(tensors: Sequence[Tensor] = ()) -> bool:
    """Whether it can take the tensors: no."""
    return False


def version() -> Any:
    """Its version; (0, 0, 0) as it is not there."""
    return (0, 0, 0)


absent(
    globals(),
    "there is one device at most",
    functions="all_gather all_reduce broadcast reduce reduce_scatter unique_id",
)
