"""Making a module without spending time on its first values."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from rushlight.nn.modules.module import Module

_M = TypeVar("_M", bound=Module)

__all__ = ["skip_init"]


def skip_init(module_cls: type[_M], *args: Any, **kwargs: Any) -> _M:
    """The module with uninitialised parameters on the asked device.

    For modules whose parameters are loaded right after.

    Arguments:
        module_cls: the class.
        args, kwargs: what it is called with.

    Example:
        >>> nn.utils.skip_init(nn.Linear, 3, 4, bias=False)
        Linear(in_features=3, out_features=4, bias=False)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"skip_init: expected a Module class, got {module_cls}")
    names = inspect.signature(module_cls).parameters
    if "device" not in names and not any(p.kind is p.VAR_KEYWORD for p in names.values()):
        raise RuntimeError(
            f"skip_init: {module_cls.__name__} takes no `device` argument, so its parameters "
            "cannot be left out"
        )
    device = kwargs.pop("device", None)
    module = module_cls(*args, **{**kwargs, "device": "meta"})
    return module.to_empty(device="cpu" if device is None else device)
