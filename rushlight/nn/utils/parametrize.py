"""Parameters that are computed from others: reading ``module.weight`` runs the parametrization.

The module gets a class of its own, whose attribute of that name is a property. The tensors that are
trained lie in ``module.parametrizations.<name>``, with the modules that compute the value.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_cache_enabled = 0
_cache = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, every parametrized tensor is computed once and then remembered.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
        >>> with nn.utils.parametrize.cached():
        ...     print(layer.weight is layer.weight)
        True
    """
    global _cache_enabled, _cache
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set_data(dest, src):
    """Gives dest the values of src, whatever its shape was."""
    if dest is not src:
        dest.data = src.detach()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors they start from.

    These are ``original``, or ``original0``, ``original1``, ... if right_inverse returns several.

    Arguments:
        modules: the parametrizations, in the order in which they are applied.
        original: the tensor.
        unsafe: do not check that shape and dtype stay the same.

    Example:
        >>> layers = nn.utils.parametrize.ParametrizationList([nn.Tanh()], rl.zeros(2), unsafe=True)
        >>> layers.original, layers()
        (tensor([0., 0.]), tensor([0., 0.]))
    """

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        modules = list(modules)
        if not modules:
            raise ValueError("ParametrizationList: needs at least one parametrization")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = _pull_back(self, original)
        self.is_tensor = isinstance(new, Tensor)
        if self.is_tensor:
            self._keep_original(original, new)
        else:
            self.ntensors = len(new)
            for i, tensor in enumerate(new):
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        "right_inverse must return a tensor or a sequence of tensors; element "
                        f"{i} is a {type(tensor).__name__}"
                    )
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor, original.requires_grad)
                tensor.requires_grad_(original.requires_grad)
                _register(self, f"original{i}", tensor)
        if not unsafe:
            self._check_result(shape, dtype)

    def _keep_original(self, original, new):
        if not self.unsafe and original.dtype != new.dtype:
            raise ValueError(
                f"right_inverse gave {new.dtype} for a tensor of {original.dtype}; the dtype must "
                "stay. unsafe=True skips this check"
            )
        with no_grad():
            _set_data(original, new)
        _register(self, "original", original)

    def _check_result(self, shape, dtype):
        result = self()
        if not isinstance(result, Tensor):
            raise ValueError(f"a parametrization must return a tensor, got {type(result).__name__}")
        if result.dtype != dtype:
            raise ValueError(
                f"the parametrization turns {dtype} into {result.dtype}; the dtype must stay. "
                "unsafe=True skips this check"
            )
        if result.shape != shape:
            raise ValueError(
                f"the parametrization turns shape {list(shape)} into {list(result.shape)}; the "
                "shape must stay. unsafe=True skips this check"
            )

    def _originals(self):
        if self.is_tensor:
            return (self.original,)
        return tuple(getattr(self, f"original{i}") for i in range(self.ntensors))

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parametrized tensor becomes value; no gradients."""
        with no_grad():
            new = _pull_back(self, value, assigning=True)
            if self.is_tensor:
                if not isinstance(new, Tensor):
                    raise ValueError(
                        f"right_inverse must return a tensor here, got {type(new).__name__}"
                    )
                if new.dtype != self.original.dtype:
                    raise ValueError(
                        f"right_inverse gave {new.dtype}, the original is {self.original.dtype}"
                    )
                _set_data(self.original, new)
                return
            if not isinstance(new, Sequence) or len(new) != self.ntensors:
                raise ValueError(f"right_inverse must return {self.ntensors} tensors here")
            for i, tensor in enumerate(new):
                original = getattr(self, f"original{i}")
                if not isinstance(tensor, Tensor) or tensor.dtype != original.dtype:
                    raise ValueError(
                        f"right_inverse: tensor {i} must be a tensor of {original.dtype}"
                    )
                _set_data(original, tensor)

    def forward(self) -> Tensor:
        first = self._modules["0"]
        value = first(*self._originals())
        for i in range(1, len(self)):
            value = self._modules[str(i)](value)
        return value


def _pull_back(modules, value, assigning=False):
    """right_inverse of all parametrizations, the last one first; assigning needs all of them."""
    with no_grad():
        new = value
        for module in reversed(list(modules)):
            if hasattr(module, "right_inverse"):
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:
                    if assigning:
                        raise
            elif assigning:
                raise RuntimeError(
                    f"parametrization {type(module).__name__} has no right_inverse, so that its "
                    "tensor cannot be assigned to"
                )
    if not isinstance(new, Tensor) and not isinstance(new, Sequence):
        raise ValueError(
            f"right_inverse must return a tensor or a sequence of tensors, got {type(new).__name__}"
        )
    return new


def _inject_new_class(module):
    """Gives the module a class of its own, for properties that only it has."""
    cls = type(module)

    def __getstate__(self):
        raise RuntimeError(
            "a parametrized module cannot be pickled, its class exists only here; save its "
            "state_dict() instead, or remove_parametrizations first"
        )

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        out = self.__new__(type(self))
        memo[id(self)] = out
        out.__dict__ = copy.deepcopy(self.__dict__, memo)
        type(out)._parametrized_slots(self, out, memo)
        return out

    def _parametrized_slots(source, target, memo):
        import copyreg

        for name in copyreg._slotnames(cls):
            if hasattr(source, name):
                object.__setattr__(target, name, copy.deepcopy(getattr(source, name), memo))

    members = {
        "__getstate__": __getstate__,
        "_parametrized_slots": staticmethod(_parametrized_slots),
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
    }
    if "__deepcopy__" not in cls.__dict__:
        members["__deepcopy__"] = __deepcopy__
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module, tensor_name):
    if hasattr(module, tensor_name):
        raise AssertionError(f"{type(module).__name__} still has an attribute {tensor_name!r}")

    def get(self):
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return parametrization()
        key = (id(self), tensor_name)
        value = _cache.get(key)
        if value is None:
            value = _cache[key] = parametrization()
        return value

    def put(self, value):
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, put))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """From now on module.<tensor_name> is parametrization(of what it was).

    The parametrization is a Module; with a right_inverse it can also be assigned to. Several may be
    registered one after the other. unsafe: dtype and shape may change, and are not checked.

    Arguments:
        module: the module.
        tensor_name: of its parameter or buffer.
        parametrization: a module; its right_inverse(), where it has one, sets the tensor.
        unsafe: do not check shapes and dtypes.

    Example:
        >>> class Symmetric(nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = nn.Linear(3, 3)
        >>> nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        ParametrizedLinear(
          in_features=3, out_features=3, bias=True
          (parametrizations): ModuleDict(
            (weight): ParametrizationList(
              (0): Symmetric()
            )
          )
        )
        >>> rl.equal(layer.weight, layer.weight.T)
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        known = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer "
            f"{tensor_name!r}"
        )
    return module


def _check_another(module, tensor_name, parametrization):
    before = getattr(module, tensor_name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"a parametrization must return a tensor, got {type(after).__name__}")
    if after.dtype != before.dtype or after.shape != before.shape:
        raise ValueError(
            f"the parametrization turns {before.dtype} {list(before.shape)} into {after.dtype} "
            f"{list(after.shape)}; both must stay. unsafe=True skips this check"
        )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            "only the first parametrization of a tensor may have a right_inverse that returns "
            f"several tensors; this one gave a {type(back).__name__}"
        )
    if back.dtype != before.dtype or back.shape != before.shape:
        raise ValueError(
            f"right_inverse gave {back.dtype} {list(back.shape)} for {before.dtype} "
            f"{list(before.shape)}; both must stay"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module, or this tensor of it, a parametrization?

    Arguments:
        module: the module.
        tensor_name: of its tensor; None asks for any.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
        >>> nn.utils.parametrize.is_parametrized(layer,
        ...     "weight"), nn.utils.parametrize.is_parametrized(layer, "bias")
        (True, False)
    """
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes the tensor an ordinary one: with its present value, or else with the original's.

    Arguments:
        module: the module.
        tensor_name: of its tensor.
        leave_parametrized: keep the present value, not the original.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
        >>> layer = nn.utils.parametrize.remove_parametrizations(layer, "weight",
        ...     leave_parametrized=True)
        >>> type(layer).__name__
        'Linear'
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {type(module).__name__} has no parametrization on "
            f"{tensor_name!r}"
        )
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
                _set_data(original, value.clone() if value is original else value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        requires_grad = any(t.requires_grad for t in chain._originals())
        original = Parameter(value.detach()) if requires_grad else value.detach()
    else:
        raise ValueError(
            "remove_parametrizations: leave_parametrized=False needs a single original tensor, "
            f"there are {chain.ntensors}"
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class without the one that parametrizations gave it.

    Arguments:
        module: the module.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
        >>> nn.utils.parametrize.type_before_parametrizations(layer) is nn.Linear
        True
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives to_module the parametrizations of from_module, of all tensors or of one.

    Arguments:
        from_module: a parametrized module.
        to_module: the module that gets them.
        tensor_name: of one tensor; None is all.

    Example:
        >>> old, new = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), nn.Linear(2, 2)
        >>> new = nn.utils.parametrize.transfer_parametrizations_and_params(old, new, "weight")
        >>> rl.equal(old.weight, new.weight)
        True
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        chain = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in chain:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        target = to_module.parametrizations[name]
        for old, new in zip(chain._originals(), target._originals(), strict=True):
            with no_grad():
                _set_data(new, old.clone())
    return to_module
