"""What fully_shard is told about dtypes and places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which parameters are gathered and used, gradients reduced, outputs given."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parts of parameters stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts of parameters, their gradients and what optimisers keep lie in the host's memory, from
    where they are copied to the GPU when they are gathered."""

    pin_memory: bool = True
