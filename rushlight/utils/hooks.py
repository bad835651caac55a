"""Handles of hooks that are kept in a dict, as modules keep theirs."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import _F, Self

_ids = itertools.count()


class _HandleMeta(type):
    # The handles of tensors' and nodes' hooks are made by the core.
    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is RemovableHandle and isinstance(instance, _C._HookHandle)
        )


class RemovableHandle(metaclass=_HandleMeta):
    """Takes a hook off the dict it was put into. Usable in a with statement."""

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(_ids)
        extra = [] if extra_dict is None else extra_dict
        extra = extra if isinstance(extra, list) else [extra]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def remove(self) -> None:
        """Takes the hook off; doing so twice is fine."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        hooks, self.id, extra = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def unserializable_hook(f: _F) -> _F:
    """Marks a hook that is not meant to be saved with its tensor."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """PyTorch warns that hooks are not saved; nothing to say here."""
