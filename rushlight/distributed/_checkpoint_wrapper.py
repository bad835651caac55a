"""A module that keeps few intermediate values and computes them again in backward. This works in
one process too."""

import enum
import functools

from rushlight.nn import Module
from rushlight.utils.checkpoint import checkpoint

__all__ = [
    "CheckpointImpl",
    "CheckpointWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
]

_PREFIX = "_checkpoint_wrapped_module"


class CheckpointImpl(enum.Enum):
    """The two ways of utils.checkpoint."""

    REENTRANT = 1
    NO_REENTRANT = 2


class CheckpointWrapper(Module):
    """The module inside; the names of its parameters stay as they were."""

    def __init__(
        self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **kwargs
    ):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        self.checkpoint_fn = (
            functools.partial(checkpoint, use_reentrant=reentrant, **kwargs)
            if checkpoint_fn is None
            else functools.partial(checkpoint_fn, **kwargs)
        )
        self._register_state_dict_hook(self._strip_prefix)
        self.register_load_state_dict_pre_hook(self._add_prefix)

    def forward(self, *args, **kwargs):
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, index):
        return self._checkpoint_wrapped_module[index]

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_PREFIX}.", ""), parameter

    @staticmethod
    def _strip_prefix(module, state_dict, prefix, *_):
        for key in [k for k in state_dict if k.startswith(f"{prefix}{_PREFIX}.")]:
            state_dict[prefix + key[len(prefix) + len(_PREFIX) + 1 :]] = state_dict.pop(key)
        return state_dict

    @staticmethod
    def _add_prefix(module, state_dict, prefix, *_):
        for key in [k for k in state_dict if k.startswith(prefix)]:
            if not key.startswith(f"{prefix}{_PREFIX}"):
                state_dict[f"{prefix}{_PREFIX}.{key[len(prefix) :]}"] = state_dict.pop(key)


def checkpoint_wrapper(
    module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **kwargs
):
    """The module, wrapped so that backward computes its intermediate values again."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **kwargs)


def apply_activation_checkpointing(
    model,
    checkpoint_wrapper_fn=checkpoint_wrapper,
    check_fn=lambda module: True,
    auto_wrap_policy=None,
):
    """Wraps every submodule for which check_fn says so."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(parent, CheckpointWrapper) or isinstance(child, CheckpointWrapper):
                continue
            if check_fn(child):
                setattr(parent, name, checkpoint_wrapper_fn(child))
