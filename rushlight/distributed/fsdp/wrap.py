"""Which submodules get a wrapper of their own: policies, and `wrap` inside of `enable_wrap`."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rushlight import nn
from rushlight.nn import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every submodule."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Submodules for which ``lambda_fn`` is true (fill it in with functools.partial)."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Submodules of these classes (fill them in with functools.partial)."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Submodules that have at least ``min_num_params`` numbers in parameters which no wrapper below
    them has; those of ``force_leaf_modules`` are not looked into."""
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES  # type: ignore[attr-defined]
    excluded = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES  # type: ignore[attr-defined]
    leaves = leaves if force_leaf_modules is None else force_leaf_modules
    excluded = excluded if exclude_wrap_modules is None else exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(leaves))
    return large and not isinstance(module, tuple(excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {  # type: ignore[attr-defined]
    nn.ModuleList,
    nn.ModuleDict,
}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {  # type: ignore[attr-defined]
    nn.MultiheadAttention
}


class CustomPolicy:
    """``lambda_fn(module)`` says whether a submodule gets a wrapper, or gives arguments for it."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def options_of(self, module: Module) -> dict[str, Any] | None:
        """The wrapper's own arguments; None: there is none."""
        found = self._lambda_fn(module)
        if not isinstance(found, bool | dict):
            raise ValueError(
                "CustomPolicy: the function must return a bool or a dict of arguments, got "
                f"{found!r} for {type(module).__name__}"
            )
        if isinstance(found, dict):
            return found
        return {} if found else None


class ModuleWrapPolicy(CustomPolicy):
    """Submodules of these classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        classes = tuple(module_classes)
        super().__init__(lambda module: isinstance(module, classes))
        self._module_classes = set(classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """As a policy of the older kind."""
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


def wrap_children(
    module: Module,
    policy: Any,
    wrapper: Callable[..., Module],
    is_left: Callable[[Module], bool],
) -> None:
    """Replaces the submodules that the policy names, the inner ones first. Those for which
    ``is_left`` is true stay as they are."""
    wrapped: dict[int, Module] = {}

    def visit(parent: Module, top: bool) -> tuple[Module, int]:
        numel = sum(p.numel() for p in parent.parameters())
        if id(parent) in wrapped:
            return wrapped[id(parent)], numel
        by_size = not isinstance(policy, CustomPolicy)
        if by_size and not policy(module=parent, recurse=True, nonwrapped_numel=numel):
            return parent, 0
        inside = 0
        for name, child in list(parent.named_children()):
            if is_left(child):
                continue
            made, taken = visit(child, False)
            inside += taken
            if made is not child:
                setattr(parent, name, made)
        if top:
            return parent, inside
        if by_size:
            left = numel - inside
            options = {} if policy(module=parent, recurse=False, nonwrapped_numel=left) else None
        else:
            options = policy.options_of(parent)
        if options is None:
            return parent, inside
        wrapped[id(parent)] = wrapper(parent, **options)
        return wrapped[id(parent)], numel

    visit(module, True)


_wrappers: contextvars.ContextVar[tuple[Any, dict[str, Any]] | None] = contextvars.ContextVar(
    "the wrapper of the enable_wrap around it", default=None
)


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, ``wrap(module)`` gives ``wrapper_cls(module, **wrapper_kwargs)``."""
    before = _wrappers.set((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrappers.reset(before)


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module in the wrapper of the ``enable_wrap`` around it; outside of one, as it is."""
    found = _wrappers.get()
    if found is None:
        return module
    wrapper, options = found
    return wrapper(module, **{**options, **wrap_overrides})
