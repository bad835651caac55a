"""Modules that learn the sizes of their parameters from the first input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from rushlight.nn.parameter import is_lazy

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Put it before the module's class: ``class LazyLinear(LazyModuleMixin, Linear)``.

    The class makes UninitializedParameters, and gives them shapes in ``initialize_parameters``,
    which gets the arguments of the first forward. Then the module becomes a ``cls_to_become``.
    """

    cls_to_become: ClassVar[type[Module] | None] = None
    if TYPE_CHECKING:  # of the module's class
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _register_load_state_dict_pre_hook: Callable[..., Any]
        register_forward_pre_hook: Callable[..., Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )
        warnings.warn(
            f"{type(self).__name__}: lazy modules are young; their interface may change",
            stacklevel=2,
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                whole = keep_vars or is_lazy(param)
                destination[prefix + name] = param if whole else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                whole = keep_vars or is_lazy(buffer)
                destination[prefix + name] = buffer if whole else buffer.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys,
                        unexpected_keys, error_msgs):  # fmt: skip
        """Takes the shapes from a state dict before it is loaded."""
        for name, param in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if param is not None and given is not None and is_lazy(param) and not is_lazy(given):
                param.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives shapes to the parameters; gets the arguments of the first forward."""
        raise NotImplementedError(
            f"{type(self).__name__}: a lazy module defines initialize_parameters"
        )

    def has_uninitialized_params(self) -> bool:
        """Is there a parameter or buffer without a shape?"""
        tensors = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(tensor) for tensor in tensors)

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"{module._get_name()}: initialize_parameters left parameters without a shape"
            )
        for name, buffer in module._buffers.items():
            if type(buffer).__name__ == "LearntBuffer":
                module._buffers[name] = buffer.detach()
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
