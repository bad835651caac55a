"""Calling a module with other tensors than its own."""

import contextlib
import warnings

from rushlight.nn.modules.module import Module

__all__ = ["functional_call"]


def _untie(module, given):
    """Adds the other names of tied tensors, so that all of them get the given one."""
    groups = {}
    named = (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    )
    for name, tensor in named:
        groups.setdefault(id(tensor), set()).add(name)
    by_name = {name: names for names in groups.values() for name in names}
    out = dict(given)
    for name, tensor in given.items():
        for other in by_name.get(name, ()):
            if other == name:
                continue
            if other in given and given[other] is not tensor:
                raise ValueError(
                    f"functional_call: {name} and {other} are one tensor in the module, but two "
                    "were given; pass tie_weights=False to set them apart"
                )
            out[other] = tensor
    return out


@contextlib.contextmanager
def _reparametrize_module(module, given, tie_weights=True, strict=False):
    if tie_weights:
        given = _untie(module, given)
    if strict:
        _check_names(module, given)
    replaced = []
    try:
        for path, tensor in given.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            replaced.append((owner, name, _swap(owner, name, tensor)))
        yield
    finally:
        for owner, name, old in reversed(replaced):
            _swap(owner, name, old)


def _swap(owner, name, tensor):
    """Puts any tensor where a parameter or buffer is, and returns what was there."""
    for group in (owner._parameters, owner._buffers):
        if name in group:
            old = group[name]
            group[name] = tensor
            return old
    if hasattr(owner, name):  # of a parametrized module, or a plain attribute
        old = getattr(owner, name)
        object.__setattr__(owner, name, tensor)
        return old
    raise AttributeError(f"functional_call: {type(owner).__name__} has no attribute `{name}`")


def _check_names(module, given):
    own = {
        name
        for name, _ in (
            *module.named_parameters(remove_duplicate=False),
            *module.named_buffers(remove_duplicate=False),
        )
    }
    missing, unexpected = sorted(own - set(given)), sorted(set(given) - own)
    if missing or unexpected:
        raise RuntimeError(
            f"functional_call: strict=True, but missing key(s) {missing[:5]}, unexpected key(s) "
            f"{unexpected[:5]}"
        )


def _functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    if not isinstance(module, Module):
        raise TypeError(f"functional_call: expected a Module, got {type(module).__name__}")
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """module(*args, **kwargs) with the given tensors in place of those of the same names."""
    warnings.warn(
        "nn.utils.stateless.functional_call is deprecated, use rushlight.func.functional_call",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
