"""The part of Module that saves and loads its state as a dict of tensors."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn.modules._hooks import _add
from rushlight.nn.modules._state_errors import explain
from rushlight.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from rushlight.utils.hooks import RemovableHandle

EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


class _BoundHook:
    """A hook that gets its module first; it does not keep the module alive twice."""

    def __init__(self, hook, module):
        self.hook = hook
        self.module = module

    def __call__(self, *args, **kwargs):
        return self.hook(self.module, *args, **kwargs)


class ModuleState:
    """state_dict, load_state_dict and their hooks."""

    if TYPE_CHECKING:  # what Module.__init__ makes
        _modules: dict[str, Any]
        _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
        _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    _version = 1

    def get_extra_state(self) -> Any:
        """Override together with set_extra_state to save more than tensors; must be picklable."""
        raise RuntimeError("get_extra_state: this module class does not define it")

    def set_extra_state(self, state: Any) -> None:
        """Takes back what get_extra_state returned."""
        raise RuntimeError("set_extra_state: this module class does not define it")

    # ---- saving

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, prefix, keep_vars) runs before the module's state is read."""
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) runs afterwards; may change the dict."""
        try:
            hook._from_public_api = True
        except AttributeError:  # a method takes no attributes
            hook = functools.partial(hook)
            hook._from_public_api = True  # type: ignore[attr-defined]
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        # The older kind: what it returns replaces the dict.
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "_register_state_dict_hook: this function is already a hook of "
                "register_state_dict_post_hook, whose result is ignored; use a new function"
            )
        return _add(self._state_dict_hooks, hook)

    def state_dict(self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:  # fmt: skip
        """All parameters and persistent buffers by dotted name, those of children included.

        The tensors are the module's own, detached unless keep_vars.
        """
        if args:
            warnings.warn(
                "state_dict: positional arguments are deprecated, use keyword arguments",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            if len(args) > 1 and prefix == "":
                prefix = args[1]
            if len(args) > 2 and keep_vars is False:
                keep_vars = args[2]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if result is None else result
            elif result is not None:
                raise RuntimeError("a state_dict post-hook must return None")
        return destination

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    # ---- loading

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _add(
            self._load_state_dict_pre_hooks, _BoundHook(hook, self) if with_module else hook
        )

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, incompatible_keys) runs afterwards and may change the lists in place."""
        return _add(self._load_state_dict_post_hooks, hook)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies the tensors of a state dict into this module and its children.

        strict: every key must be used, and every tensor of the module found. assign: the tensors of
        the dict themselves become the module's. Returns the keys that did not fit.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict: expected a dict of tensors, got {type(state_dict).__name__}"
            )
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]
        loading = _Loading(metadata, strict, assign)
        loading.load(self, state, "")
        if strict:
            missing, unexpected, errors = loading.missing, loading.unexpected, loading.errors
        else:
            missing, unexpected, errors = [], [], loading.errors
        if missing or unexpected or errors:
            raise RuntimeError(explain(type(self).__name__, state, missing, unexpected, errors))
        return _IncompatibleKeys(loading.missing, loading.unexpected)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):  # fmt: skip
        """Loads this module's own tensors, not those of its children. Override to convert."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)  # fmt: skip
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = {**self._parameters, **{
            name: buffer for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        }}  # fmt: skip
        own = {name: tensor for name, tensor in own.items() if tensor is not None}
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = _load_one(self, name, tensor, key, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + EXTRA
        if type(self).set_extra_state is not ModuleState.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or key == extra_key:
                    continue
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (self._modules if dot else own):
                    unexpected_keys.append(key)


class _Loading:
    """One call of load_state_dict: what is known about it while it walks the modules."""

    def __init__(self, metadata, strict, assign):
        self.metadata, self.strict, self.assign = metadata, strict, assign
        self.missing, self.unexpected, self.errors = [], [], []

    def load(self, module, state, prefix):
        local = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state, prefix, local, True, self.missing, self.unexpected, self.errors
        )
        by_child = _by_child(state, prefix, module._modules)
        for name, child in module._modules.items():
            if child is not None:
                self.load(child, by_child.get(name, {}), f"{prefix}{name}.")
        keys = _IncompatibleKeys(self.missing, self.unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise AssertionError(
                    "a load_state_dict post-hook must return None; change incompatible_keys in "
                    "place"
                )


def _by_child(state, prefix, children):
    """The entries of each child, in the dict's order; a key is looked at once, not once a child."""
    found = {}
    start = len(prefix)
    for key, value in state.items():
        name, dot, _ = key[start:].partition(".")
        if dot and name in children and key.startswith(prefix):
            found.setdefault(name, {})[key] = value
    return found


def _load_one(module, name, tensor, key, given, assign):
    """Copies or assigns one tensor; returns what is wrong, or None."""
    if not isinstance(given, Tensor):
        return (
            f"{key}: expected a tensor from the checkpoint, got "
            f"{type(given).__module__}.{type(given).__qualname__}"
        )
    lazy = is_lazy(tensor)
    if not lazy and not is_lazy(given):
        if tensor.dim() == 0 and given.dim() == 1 and given.shape[0] == 1:
            given = given[0]  # as very old files have scalars
        if given.shape != tensor.shape:
            return (
                f"size mismatch for {key}: {list(given.shape)} in the checkpoint, "
                f"{list(tensor.shape)} in the model"
            )
    if not lazy and tensor.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"load_state_dict: {key} is a meta tensor, so copying into it does nothing; pass "
            "assign=True to take the checkpoint's tensors, or call to_empty() first",
            stacklevel=2,
        )
    try:
        with no_grad():
            if assign:
                _assign(module, name, tensor, given)
            else:
                tensor.copy_(given)
    except Exception as error:
        return f"{key}: copying failed: {error}"
    return None


def _assign(module, name, tensor, given):
    if isinstance(tensor, Parameter):
        if isinstance(given, Parameter):
            given.requires_grad_(tensor.requires_grad)
        else:
            given = Parameter(given, requires_grad=tensor.requires_grad)
    setattr(module, name, given)
