"""The older place of functional_call."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from rushlight import func
from rushlight._C import Tensor
from rushlight.func._modules import reparametrized
from rushlight.nn.modules.module import Module

__all__ = ["functional_call"]


@contextlib.contextmanager
def _reparametrize_module(module: Module, parameters_and_buffers: dict[str, Tensor],
                          tie_weights: bool = False, strict: bool = False,
                          stack_weights: bool = False) -> Iterator[None]:  # fmt: skip
    """The module with the given tensors in place of its own while the block runs: packages use it.

    `stack_weights` decides in which order tied names are put back; here that makes no difference.
    Tensors that the block gave new buffers for are replaced in the dict.
    """
    with reparametrized(module, parameters_and_buffers, tie_weights, strict) as tensors:
        yield
    for name in parameters_and_buffers.keys() & tensors.keys():
        parameters_and_buffers[name] = tensors[name]


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
