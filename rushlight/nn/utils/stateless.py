"""The older place of functional_call."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import func
from rushlight._C import Tensor
from rushlight.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(module: Module, parameters_and_buffers: dict[str, Tensor],
                    args: Any | tuple | None = None, kwargs: dict[str, Any] | None = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:  # fmt: skip
    """module(*args, **kwargs) with the given tensors in place of those of the same names."""
    warnings.warn(
        "nn.utils.stateless.functional_call is deprecated, use rushlight.func.functional_call",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(module, Module):
        raise TypeError(f"functional_call: expected a Module, got {type(module).__name__}")
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
