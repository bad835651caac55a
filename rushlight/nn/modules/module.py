"""Module: the base of everything with parameters."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn.modules._convert import ModuleConversion
from rushlight.nn.modules._failure import add_module_path
from rushlight.nn.modules._hooks import (
    ANY_GLOBAL,
    ModuleHooks,
    _global_buffer_registration_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    call_with_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rushlight.nn.modules._state import EXTRA as _EXTRA_STATE_KEY_SUFFIX
from rushlight.nn.modules._state import ModuleState, _IncompatibleKeys
from rushlight.nn.modules._tree import ModuleTree, _addindent
from rushlight.nn.parameter import Buffer, Parameter

if TYPE_CHECKING:
    from rushlight.nn.modules._summary import Summary

__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX",
    "Module",
    "_IncompatibleKeys",
    "_addindent",
    "_global_buffer_registration_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


def _forward_unimplemented(self: Any, *input: Any) -> NoReturn:
    """Computes the module's result. Every subclass defines it."""
    raise NotImplementedError(f"{type(self).__name__}: this module defines no forward()")


# The dicts of hooks that every module has.
_HOOK_DICTS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Module(ModuleTree, ModuleState, ModuleConversion, ModuleHooks):
    """The base class of all layers and models.

    A subclass makes its parts in __init__ (after super().__init__()) and computes in forward.
    Modules and Parameters that are assigned to attributes are found by parameters(), moved by
    to(), saved by state_dict() and switched by train() and eval().

    Arguments:
        args, kwargs: none; passed on where a subclass has other bases.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self, hidden):
        ...         super().__init__()
        ...         self.inner = nn.Linear(4, hidden)
        ...         self.outer = nn.Linear(hidden, 2)
        ...     def forward(self, x):
        ...         return self.outer(self.inner(x).relu())
        >>> net = Net(hidden=8)
        >>> net(rl.zeros(3, 4)).shape
        rushlight.Size([3, 2])
        >>> [name for name, _ in net.named_parameters()]
        ['inner.weight', 'inner.bias', 'outer.weight', 'outer.bias']
    """

    dump_patches = False
    call_super_init = False
    _compiled_call_impl = None
    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = f"{len(args)} positional" if args else f"keyword '{next(iter(kwargs))}'"
            raise TypeError(
                f"{type(self).__name__}.__init__(): Module.__init__() takes no arguments, got "
                f"{given} one(s)"
            )
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        own["_modules"] = {}
        for name in _HOOK_DICTS:
            own[name] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _forward_unimplemented

    # Calls and attributes of classes that define neither method themselves do not pass here, but
    # through the slots of csrc/bindings/module_slots.cpp.
    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _C._set_module_slots(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _C._call_module(self, args, kwargs)

    _call_impl = _wrapped_call_impl = __call__

    # ---- registering

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that belongs to the state but is not trained, as an attribute."""
        own = self.__dict__
        if "_buffers" not in own:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        _check_name("buffer", name, self, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"buffer '{name}' must be a tensor or None, got {type(tensor).__name__}"
            )
        for hook in _global_buffer_registration_hooks.values():
            changed = hook(self, name, tensor)
            tensor = tensor if changed is None else changed
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a Parameter, or None in its place, as an attribute."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        _check_name("parameter", name, self, "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"parameter '{name}' must be an nn.Parameter or None, got "
                    f"{type(param).__name__}; wrap the tensor: nn.Parameter(tensor)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"parameter '{name}' is the result of {param.grad_fn}; a parameter must be a "
                    "leaf of the graph. Make it from a detached tensor, or compute the value in "
                    "forward()"
                )
        for hook in _global_parameter_registration_hooks.values():
            changed = hook(self, name, param)
            param = param if changed is None else changed
        self._parameters[name] = param

    def add_module(self, name: str, module: Module) -> None:
        """Adds a child, or None in its place, as an attribute."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"child '{name}' must be a Module or None, got {type(module).__name__}")
        _check_name("module", name, self, "_modules")
        self._modules[name] = _registered_module(self, name, module)

    def register_module(self, name: str, module: Module) -> None:
        """Another name of add_module."""
        self.add_module(name, module)

    # ---- attributes

    def _replicate_for_data_parallel(self):
        """A copy whose parameters, buffers and parts nn.parallel.replicate fills in."""
        replica = self.__new__(type(self))
        own = {"_parameters": {}, "_buffers": {}, "_modules": {}, "_is_replica": True}
        replica.__dict__.update(self.__dict__, **own)
        return replica

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        try:
            found = own["_parameters"]
            if name in found:
                return found[name]
            found = own["_modules"]
            if name in found:
                return found[name]
            found = own["_buffers"]
            if name in found:
                return found[name]
        except KeyError:
            if name in _OWN_NAMES and not isinstance(getattr(type(self), name, None), property):
                raise AttributeError(
                    f"'{type(self).__name__}' object has no attribute '{name}': call "
                    "super().__init__() first in its __init__()"
                ) from None
            for group in ("_parameters", "_modules", "_buffers"):
                if name in own.get(group, ()):
                    return own[group][name]
        found = getattr(type(self), name, None)
        if isinstance(found, property) and found.fget is not None:
            # The property raised an AttributeError, which brought us here: let it say what it was.
            return found.fget(self)
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'",
            name=name,
            obj=self,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        params = own.get("_parameters")
        is_tensor = isinstance(value, Tensor)  # the other two tests are slow
        if is_tensor and isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            _forget(self, name, "_buffers", "_modules")
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"'{name}' is a parameter: it can be replaced by an nn.Parameter or None, not "
                    f"by {type(value).__name__}"
                )
            self.register_parameter(name, value)
            return
        modules = own.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            _forget(self, name, "_parameters", "_buffers")
            modules[name] = _registered_module(self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"'{name}' is a child module: it can be replaced by a Module or None, not by "
                    f"{type(value).__name__}"
                )
            modules[name] = _registered_module(self, name, value)
            return
        buffers = own.get("_buffers")
        if (buffers is not None and name in buffers) or (is_tensor and isinstance(value, Buffer)):
            self._set_buffer(name, value)
            return
        object.__setattr__(self, name, value)

    def _set_buffer(self, name, value):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"'{name}' is a buffer: it can be replaced by a tensor or None, not by "
                f"{type(value).__name__}"
            )
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        _forget(self, name, "_parameters", "_modules")
        if persistent:
            # A subclass's own register_buffer need not know the third argument.
            self._non_persistent_buffers_set.discard(name)
            self.register_buffer(name, value)
        else:
            self.register_buffer(name, value, False)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = itertools.chain(
            dir(type(self)), self.__dict__, self._parameters, self._modules, self._buffers
        )
        return sorted({name for name in names if not name[:1].isdigit()})

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        for name in _HOOK_DICTS:  # of a file from before they were there
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # ---- tools

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Fuses the ops of forward from now on; takes the arguments of rushlight.compile."""
        from rushlight.compiler._compile import compile_in_place

        compile_in_place(self, *args, **kwargs)

    def summary(self, *inputs: Any, **kwargs: Any) -> Summary:
        """Runs the module on the inputs; prints and returns a table of its parts.

        The table has output shapes, parameters, multiply-adds and memory of outputs, by module.
        """
        from rushlight.nn.modules._summary import summarize

        table = summarize(self, inputs, kwargs)
        print(table)
        return table


def use_slots(cls: type[Module] = Module) -> None:
    """Gives a class and all below it the slots that Python took away when a method was replaced."""
    _C._set_module_slots(cls)
    for below in cls.__subclasses__():
        use_slots(below)


def _begin_to_use_slots() -> None:
    own = vars(Module)
    _C._set_module_methods(
        own["__getattr__"], own["__call__"], call_with_hooks, add_module_path, ANY_GLOBAL
    )
    use_slots()


_begin_to_use_slots()
_OWN_NAMES = frozenset(
    (*_HOOK_DICTS, "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")
)


def _check_name(kind, name, module, group):
    if not isinstance(name, str):
        raise TypeError(f"{kind} name must be a string, got {type(name).__name__}")
    if name not in module.__dict__[group] and hasattr(module, name):
        raise KeyError(f"attribute '{name}' already exists")
    if "." in name:
        raise KeyError(f'{kind} name must not contain ".", got "{name}"')
    if name == "":
        raise KeyError(f'{kind} name must not be the empty string ""')


def _registered_module(parent, name, module):
    for hook in _global_module_registration_hooks.values():
        changed = hook(parent, name, module)
        module = module if changed is None else changed
    return module


def _forget(module, name, *groups):
    """Before an attribute changes its kind: takes it out of where it was."""
    own = module.__dict__
    own.pop(name, None)
    for group in groups:
        own[group].pop(name, None)
    own["_non_persistent_buffers_set"].discard(name)
