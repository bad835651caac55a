"""The base class of all optimisers: parameter groups, hooks, saved states."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeAlias, TypeVar, Union, cast, overload

from rushlight import _C
from rushlight._C import Tensor
from rushlight._functions.questions import typename
from rushlight.autograd import enable_grad, no_grad
from rushlight.types import _F, Self
from rushlight.utils.hooks import RemovableHandle

_Loss = TypeVar("_Loss", bound=SupportsFloat)  # what a closure returns: a tensor or a number

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

# What an optimiser takes: parameters, groups of them, or parameters with their names.
ParamsT: TypeAlias = Union[  # noqa: UP007 -- read at run time by older Pythons
    Iterable[Tensor], Iterable[dict[str, Any]], Iterable[tuple[str, Tensor]]
]

_global_pre_hooks = OrderedDict()
_global_post_hooks = OrderedDict()


class _Required:
    """Stands for a default that every group has to give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_RequiredParameter = _Required


def register_optimizer_step_pre_hook(
    hook: Callable[
        [Optimizer, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]] | None
    ],
) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) before every step of every optimiser."""
    return _add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(
    hook: Callable[[Optimizer, tuple[Any, ...], dict[str, Any]], None],
) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) after every step of every optimiser."""
    return _add_hook(_global_post_hooks, hook)


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


# While a profile records: what names the range around a step (rushlight/profiler/_ranges.py).
_step_ranges: list[Callable[[str], Any]] = []


def _run_with_hooks(step, self, args, kwargs):
    if not _step_ranges:
        return _run_hooks(step, self, args, kwargs)
    with _step_ranges[0](f"Optimizer.step#{type(self).__name__}.step"):
        return _run_hooks(step, self, args, kwargs)


def _run_hooks(step, self, args, kwargs):
    # As hooks see it, the optimiser is the first argument.
    args = (self, *args)
    for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
        result = hook(self, args, kwargs)
        if result is None:
            continue
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(f"{type(self).__name__}.step: a pre-hook must return None or "
                               f"(args, kwargs), not {result!r}")  # fmt: skip
        args, kwargs = result
    out = step(*args, **kwargs)
    for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
        hook(self, args, kwargs)
    return out


# What other libraries call options that ours know under PyTorch's names.
_OTHER_NAMES = {"learning_rate": "lr", "decay": "weight_decay", "wd": "weight_decay"}


def _naming_options(init):
    """The same constructor; an option under another library's name is told ours."""

    @functools.wraps(init)
    def named(self, *args, **kwargs):
        for other in _OTHER_NAMES.keys() & kwargs.keys():
            import inspect

            known, ours = inspect.signature(init).parameters, _OTHER_NAMES[other]
            if other not in known and ours in known:
                raise TypeError(
                    f"{type(self).__name__}: there is no option {other!r}; write {ours}="
                )
        return init(self, *args, **kwargs)

    return named


_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class Optimizer:
    """Holds groups of parameters with their options, and a state for each parameter.

    All optimizers share zero_grad(), step(), state_dict(), load_state_dict(), add_param_group()
    and param_groups, whose settings may be changed at any time. One of your own overrides step().

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        defaults: the settings of groups that say nothing else.

    Example:
        >>> class Descent(optim.Optimizer):
        ...     @rl.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p -= group["lr"] * p.grad
        >>> x = rl.tensor([1.0], requires_grad=True)
        >>> optimizer = Descent([x], {"lr": 0.25})
        >>> (x**2).backward(); optimizer.step(); x
        tensor([0.5000], requires_grad=True)
    """

    if TYPE_CHECKING:  # made by name in __init__
        _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = _naming_options(cls.__init__)  # type: ignore[method-assign]

    def __init__(
        self,
        params: ParamsT,
        defaults: dict[str, Any],
    ) -> None:
        self.defaults = defaults
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__}: 'params' must be an iterable of tensors or "
                            "dicts, not a tensor; put it into a list")  # fmt: skip
        if not isinstance(params, Iterable):
            hint = "; pass its parameters()" if hasattr(params, "parameters") else ""
            raise TypeError(f"{type(self).__name__}: 'params' must be an iterable of tensors or "
                            f"dicts, not {type(params).__name__}{hint}")  # fmt: skip
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: there are no parameters to optimise: "
                             "'params' is empty (an iterator may have been used up)")  # fmt: skip
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # Note [Steps know their hooks]
    # A class's step() is wrapped once, when the first object of the class is made, so that users'
    # own subclasses get hooks too.
    def _patch_step_function(self):
        cls = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    @staticmethod
    def profile_hook_step(step: _F) -> _F:
        """step with the hooks around it."""

        @functools.wraps(step)
        def hooked_step(self, *args, **kwargs):
            if (
                self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks
                or _global_pre_hooks
                or _global_post_hooks
                or _step_ranges
            ):
                return _run_with_hooks(step, self, args, kwargs)
            return step(self, *args, **kwargs)

        return cast(_F, hooked_step)

    def register_step_pre_hook(
        self,
        hook: Callable[
            [Self, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]] | None
        ],
    ) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) before each step; it may return new ones."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(
        self, hook: Callable[[Self, tuple[Any, ...], dict[str, Any]], None]
    ) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Calls hook(optimizer) before state_dict()."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self,
        hook: Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None],
        prepend: bool = False,
    ) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) after state_dict(); it may return another one."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self,
        hook: Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None],
        prepend: bool = False,
    ) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) before loading; it may return another one."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Calls hook(optimizer) after loading."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self) -> dict[str, Any]:
        """The states and options, with numbers in place of the parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        start = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    @no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave. Parameters are matched by their order."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = deepcopy(state_dict["param_groups"])
        self._check_saved_groups(saved)
        params = {}
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            params.update(zip(theirs["params"], ours["params"], strict=True))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _fit_state(params[key], value, key, saved)
            else:
                state[key] = value
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            theirs["params"] = ours["params"]
            if "param_names" in ours:
                theirs.setdefault("param_names", ours["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _check_saved_groups(self, saved):
        name = f"{type(self).__name__}.load_state_dict"
        if len(saved) != len(self.param_groups):
            raise ValueError(f"{name}: the state dict has {len(saved)} parameter groups, the "
                             f"optimizer has {len(self.param_groups)}")  # fmt: skip
        for i, (ours, theirs) in enumerate(zip(self.param_groups, saved, strict=True)):
            if len(ours["params"]) != len(theirs["params"]):
                raise ValueError(f"{name}: group {i} has {len(theirs['params'])} parameters in "
                                 f"the state dict and {len(ours['params'])} here")  # fmt: skip

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        """Lists of tensors split by device and dtype; custom optimisers call it."""
        from rushlight.utils._foreach_utils import _group_tensors_by_device_and_dtype

        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients, or fills them with zeros."""
        if set_to_none:
            for group in self.param_groups:
                _C._drop_grads(group["params"])
        else:
            from rushlight.utils._foreach_utils import _zero_grads

            _zero_grads(p for group in self.param_groups for p in group["params"])

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], _Loss]) -> _Loss: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters; ``closure`` computes the loss anew and returns it."""
        raise NotImplementedError(f"{type(self).__name__}.step: a subclass must define it")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a dict with ``params`` and those options that differ from the defaults."""
        name = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{name}: a parameter group must be a dict, "
                            f"not {type(param_group).__name__}")  # fmt: skip
        _list_params(name, param_group)
        for param in param_group["params"]:
            if not isinstance(param, Tensor):
                raise TypeError(f"{name}: only tensors can be optimised, "
                                f"not {typename(param)}")  # fmt: skip
            differentiable = self.defaults.get("differentiable", None)
            if not differentiable and not (param.is_leaf or param.retains_grad):
                raise ValueError(f"{name}: a parameter of shape {tuple(param.shape)} is no leaf "
                                 "but the result of an operation; optimise the tensor it was "
                                 "computed from, or detach() it")  # fmt: skip
        for key, default in self.defaults.items():
            if default is required and key not in param_group:
                raise ValueError(f"{name}: a parameter group must give '{key}', "
                                 "which has no default")  # fmt: skip
            param_group.setdefault(key, default)
        self._check_against_groups(name, param_group)
        self.param_groups.append(param_group)

    def _check_against_groups(self, name, param_group):
        params = set(param_group["params"])
        if len(params) != len(param_group["params"]):
            warnings.warn(f"{name}: a parameter group holds a parameter more than once; it will "
                          "be stepped as often", stacklevel=4)  # fmt: skip
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                which = "with" if "param_names" in param_group else "without"
                raise ValueError(f"{name}: parameter groups either all have names or none has; "
                                 f"this one comes {which} names")  # fmt: skip
            if not params.isdisjoint(group["params"]):
                raise ValueError(f"{name}: a parameter is in more than one parameter group")


def _list_params(name, group):
    """Brings group["params"] into a list, and names out of (name, parameter) pairs."""
    params = group["params"]
    if isinstance(params, Tensor):
        params = [params]
    elif isinstance(params, set):
        raise TypeError(f"{name}: parameters in a set have no fixed order, which saved states rely "
                        "on; use a list")  # fmt: skip
    params = list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
    if names:
        if len(names) != len(params):
            raise ValueError(f"{name}: either all parameters of a group have names or none has; "
                             f"{len(params) - len(names)} of {len(params)} have none")  # fmt: skip
        group["param_names"] = names


def _fit_state(param, value, number, groups, key=None):
    """A saved value with its tensors in the parameter's dtype and on its device."""
    if isinstance(value, Tensor):
        if key == "step":
            # Step counts stay on the CPU in float32, unless a group wants them on its device.
            group = next((g for g in groups if number in g["params"]), {})
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=_C.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _fit_state(param, v, number, groups, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_fit_state(param, v, number, groups) for v in value)
    return value


def _loss_of(closure):
    """What the closure returns, with recording on; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def __getattr__(name: str) -> Any:
    # Names that custom optimisers written for PyTorch import.
    from rushlight._names.missing import submodule_or_raise
    from rushlight.optim import _pytorch_names

    if name.startswith("__") or not hasattr(_pytorch_names, name):
        return submodule_or_raise(__name__, name)
    return getattr(_pytorch_names, name)
