"""The older place of functional_call."""

import warnings

from rushlight import func
from rushlight.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
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
