"""Hooks of modules: registering them, for one module or for all, and the call that runs them.

A module without hooks never comes here: Module.__call__ asks once whether there is any.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight._C import Tensor
from rushlight.types import Self
from rushlight.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

# Hooks of every module of the process. Each is also in ANY_GLOBAL, under the same id: calls ask it.
ANY_GLOBAL = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
# These run when something is registered, not when a module is called.
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()


def _add(hooks, hook, marks=(), prepend=False):
    """Puts a hook into `hooks`, and its id into every dict of `marks`."""
    handle = RemovableHandle(hooks, extra_dict=[*marks])
    hooks[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _add_global(hooks, hook, marks=()):
    return _add(hooks, hook, [*marks, ANY_GLOBAL])


def register_module_buffer_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, name, buffer) runs when a buffer is registered, and may return another."""
    return _add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, name, submodule) runs when a child is registered, and may return another."""
    return _add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, name, parameter) runs when a parameter is registered; may return another."""
    return _add(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., None]) -> RemovableHandle:
    """hook(module, args) runs before the forward of every module, and may return new args."""
    return _add_global(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., None], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """hook(module, args, output) runs after every module's forward; may return a new output."""
    marks = [_global_forward_hooks_with_kwargs] if with_kwargs else []
    if always_call:
        marks.append(_global_forward_hooks_always_called)
    return _add_global(_global_forward_hooks, hook, marks)


def _set_global_backward_kind(full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "regular and full backward hooks cannot both be registered for all modules; use full "
            "ones"
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(
    hook: Callable[
        [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor],
        tuple[Tensor, ...] | Tensor | None,
    ],
) -> RemovableHandle:
    """The old kind of backward hook, for all modules; prefer the full one."""
    _set_global_backward_kind(False)
    return _add_global(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(
    hook: Callable[[Module, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None],
) -> RemovableHandle:
    """hook(module, grad_output) runs before the backward of every module; may return another."""
    return _add_global(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(
    hook: Callable[
        [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor],
        tuple[Tensor, ...] | Tensor | None,
    ],
) -> RemovableHandle:
    """hook(module, grad_input, grad_output) runs after every module's backward."""
    _set_global_backward_kind(True)
    return _add_global(_global_backward_hooks, hook)


class ModuleHooks:
    """The part of Module that registers hooks for calls."""

    if TYPE_CHECKING:  # what Module.__init__ makes
        _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _backward_hooks: OrderedDict[int, Callable[..., Any]]
        _is_full_backward_hook: bool | None
        _forward_hooks: OrderedDict[int, Callable[..., Any]]
        _forward_hooks_with_kwargs: OrderedDict[int, bool]
        _forward_hooks_always_called: OrderedDict[int, bool]
        _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]

    def register_forward_pre_hook(
        self,
        hook: Callable[[Self, tuple[Any, ...]], Any | None]
        | Callable[[Self, tuple[Any, ...], dict[str, Any]], tuple[Any, dict[str, Any]] | None],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
    ) -> RemovableHandle:
        """hook(module, args) runs before forward and may return new positional arguments.

        with_kwargs: it is hook(module, args, kwargs) and may return (args, kwargs).
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return _add(self._forward_pre_hooks, hook, marks, prepend)

    def register_forward_hook(
        self,
        hook: Callable[[Self, tuple[Any, ...], Any], Any | None]
        | Callable[[Self, tuple[Any, ...], dict[str, Any], Any], Any | None],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """hook(module, args, output) runs after forward and may return another output.

        with_kwargs: it is hook(module, args, kwargs, output). always_call: it also runs, once, when
        forward or another hook raises.
        """
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        if always_call:
            marks.append(self._forward_hooks_always_called)
        return _add(self._forward_hooks, hook, marks, prepend)

    def register_full_backward_pre_hook(
        self,
        hook: Callable[[Module, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None],
        prepend: bool = False,
    ) -> RemovableHandle:
        """hook(module, grad_output) runs when the gradients of all outputs are known.

        It may return other gradients of the outputs.
        """
        return _add(self._backward_pre_hooks, hook, (), prepend)

    def register_full_backward_hook(
        self,
        hook: Callable[
            [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor],
            tuple[Tensor, ...] | Tensor | None,
        ],
        prepend: bool = False,
    ) -> RemovableHandle:
        """hook(module, grad_input, grad_output) runs when the gradients of the inputs are known.

        It may return other gradients of the inputs.
        """
        self._set_backward_kind(True)
        return _add(self._backward_hooks, hook, (), prepend)

    def register_backward_hook(
        self,
        hook: Callable[
            [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor],
            tuple[Tensor, ...] | Tensor | None,
        ],
    ) -> RemovableHandle:
        """The old kind: it sees only the last operation of forward. Prefer the full one."""
        self._set_backward_kind(False)
        return _add(self._backward_hooks, hook)

    def _set_backward_kind(self, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                f"{type(self).__name__}: a module takes either regular or full backward hooks, "
                "not both; register full ones"
            )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self):
        full, regular = [], []
        if _global_is_full_backward_hook is not None:
            (full if _global_is_full_backward_hook else regular).extend(
                _global_backward_hooks.values()
            )
        if self._is_full_backward_hook is not None:
            (full if self._is_full_backward_hook else regular).extend(self._backward_hooks.values())
        return full, regular

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]


def has_hooks(module):
    """Does anything hang on calls of the module? (Module.__call__ asks the same without a call.)"""
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks,
           module._backward_pre_hooks)  # fmt: skip
    return any(own) or bool(ANY_GLOBAL)


def call_with_hooks(module: Module, args: Any, kwargs: Any) -> Any:
    """module.forward(*args, **kwargs) with every hook that there is."""
    if not (module._forward_hooks_always_called or _global_forward_hooks_always_called):
        return _call(module, args, kwargs, set())
    called = set()
    try:
        return _call(module, args, kwargs, called)
    except Exception:
        _call_after_failure(module, args, kwargs, called)
        raise


def _call(module, args, kwargs, called):
    args, kwargs = _run_pre_hooks(module, args, kwargs)
    full, regular = module._get_backward_hooks()
    pre = module._get_backward_pre_hooks()
    graph = None
    if full or pre:
        from rushlight.nn.modules._backward_hooks import GraphHooks

        graph = GraphHooks(module, full, pre)
        args = graph.watch_inputs(args)
    result = module.forward(*args, **kwargs)
    for key, hook, with_kwargs, always in _forward_hooks(module):
        if always:
            called.add(key)
        changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
        if changed is not None:
            result = changed
    if graph is not None:
        result = graph.watch_outputs(result)
    if regular:
        from rushlight.nn.modules._backward_hooks import add_regular_hooks

        add_regular_hooks(module, regular, result)
    return result


def _run_pre_hooks(module, args, kwargs):
    own_kwargs = module._forward_pre_hooks_with_kwargs
    hooks = [(hook, False) for hook in _global_forward_pre_hooks.values()]
    hooks += [(hook, key in own_kwargs) for key, hook in module._forward_pre_hooks.items()]
    for hook, with_kwargs in hooks:
        if with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        "a forward pre-hook with kwargs must return None or (args, kwargs), got "
                        f"{changed!r}"
                    )
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _forward_hooks(module):
    """(key, hook, takes kwargs?, always called?) of forward hooks, the global ones first."""
    return [
        (
            key,
            hook,
            key in _global_forward_hooks_with_kwargs,
            key in _global_forward_hooks_always_called,
        )
        for key, hook in _global_forward_hooks.items()
    ] + [
        (
            key,
            hook,
            key in module._forward_hooks_with_kwargs,
            key in module._forward_hooks_always_called,
        )
        for key, hook in module._forward_hooks.items()
    ]


def _call_after_failure(module, args, kwargs, called):
    """The hooks that want to run although forward raised; their own errors become warnings."""
    for key, hook, with_kwargs, always in _forward_hooks(module):
        if not always or key in called:
            continue
        try:
            hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
        except Exception as error:
            kind = "global" if key in _global_forward_hooks else "module"
            warnings.warn(
                f"{kind} forward hook with always_call=True raised while another error was on its "
                f"way, which is kept: {error}",
                stacklevel=4,
            )
