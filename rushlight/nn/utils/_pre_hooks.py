"""What the older reparametrisations share: hooks that compute a weight before each forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

    _M = TypeVar("_M", bound=Module)


def remove_hook(module: _M, name: str, kind: Any, title: str) -> _M:
    """Removes the hook of a kind, spectral norm for example, from the weight of this name."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"remove_{title.replace(' ', '_')}: {name!r} of {type(module).__name__} has no {title}"
    )
