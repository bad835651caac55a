"""Modules as functions of their parameters.

Written to a protocol: anything with ``named_parameters``, ``named_buffers`` and attributes that
hold the tensors will do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight._C import Tensor

if TYPE_CHECKING:
    from rushlight.nn.modules.container import ModuleList
    from rushlight.nn.modules.module import Module


def _owner(module, name):
    """The object that holds the tensor of a dotted name, and its attribute's name."""
    *path, last = name.split(".")
    for part in path:
        children = getattr(module, "_modules", None)
        if children is not None and part in children:
            module = children[part]
        elif part.isdigit() and not hasattr(module, part):
            module = module[int(part)]
        else:
            module = getattr(module, part)
    return module, last


def _slot(owner, name):
    """The dict in which the owner keeps the tensor: parameters and buffers may lie apart."""
    for place in ("_parameters", "_buffers"):
        held = getattr(owner, place, None)
        if held is not None and name in held:
            return held
    return owner.__dict__


@contextlib.contextmanager
def _swapped(module, tensors):
    saved = []
    try:
        for name, value in tensors.items():
            owner, last = _owner(module, name)
            slot = _slot(owner, last)
            saved.append((slot, last, slot[last], name))
            slot[last] = value
        yield
    finally:
        # What the call wrote to a buffer (running statistics) belongs to the caller's dict.
        for slot, last, before, name in reversed(saved):
            if isinstance(tensors, dict) and slot[last] is not tensors[name]:
                tensors[name] = slot[last]
            slot[last] = before


def _known_names(module):
    known = {}
    for kind in ("named_parameters", "named_buffers"):
        lister = getattr(module, kind, None)
        if lister is None:
            continue
        try:
            items = lister(remove_duplicate=False)
        except TypeError:
            items = lister()
        for name, tensor in items:
            known.setdefault(name, tensor)
    return known


def _with_ties(given, known):
    """Names of the same tensor get the same replacement."""
    names_of = {}
    for name, tensor in known.items():
        names_of.setdefault(id(tensor), []).append(name)
    out = dict(given)
    for name, value in given.items():
        for other in names_of.get(id(known.get(name)), ()):
            if other in given and given[other] is not value:
                raise ValueError(
                    f"functional_call: {name!r} and {other!r} are one tensor of the module, but "
                    "got two different replacements; pass tie_weights=False to allow that"
                )
            out.setdefault(other, value)
    return out


@contextlib.contextmanager
def reparametrized(module, given, tie_weights, strict):
    """The module with the given tensors in place of its own; yields them, tied names with them."""
    known = _known_names(module)
    unexpected = sorted(given.keys() - known.keys())
    missing = sorted(known.keys() - given.keys())
    if strict and unexpected:
        raise RuntimeError(
            f"functional_call: the module has no parameters or buffers named {unexpected}; it has "
            f"{sorted(known)}"
        )
    if strict and missing:
        raise RuntimeError(f"functional_call: strict is True, but {missing} were not given")
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"functional_call: {name!r} must be a Tensor, not {type(value).__name__}"
            )
    given = {name: value for name, value in given.items() if name in known}
    tensors = _with_ties(given, known) if tie_weights else given
    with _swapped(module, tensors):
        yield tensors


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls ``module`` with other tensors in place of its parameters and buffers.

    Arguments:
        module: the module; it is left as it is.
        parameter_and_buffer_dicts: tensors by name, a dict or several.
        args: what it is called with: a tuple, or a single argument.
        kwargs: named ones.
        tie_weights: tensors that are shared stay shared.
        strict: raise for names that are missing or unknown.

    Example:
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> rl.func.functional_call(layer, {"weight": rl.ones(1, 2)}, rl.tensor([3.0, 4.0]),
        ...     strict=True)
        tensor([7.])
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, (list, tuple)):
        given = {}
        for part in parameter_and_buffer_dicts:
            if not isinstance(part, dict):
                raise ValueError(
                    "functional_call: expected dicts of tensors, got a sequence that holds "
                    f"{type(part).__name__}"
                )
            if repeated := sorted(given.keys() & part.keys()):
                raise ValueError(f"functional_call: {repeated} appear in more than one dict")
            given.update(part)
    else:
        raise ValueError(
            "functional_call: expected a dict of tensors or a sequence of such dicts, got "
            f"{type(parameter_and_buffer_dicts).__name__}"
        )
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with reparametrized(module, given, tie_weights, strict) as tensors:
        result = module(*args, **(kwargs or {}))
    for name in tensors:  # buffers that the call replaced
        if name in given and tensors[name] is not given[name]:
            if isinstance(parameter_and_buffer_dicts, dict):
                parameter_and_buffer_dicts[name] = tensors[name]
    return result


def stack_module_state(
    models: Sequence[Module] | ModuleList,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of alike modules, each stacked: two dicts.

    Arguments:
        models: modules of the same kind.

    Example:
        >>> params, buffers = rl.func.stack_module_state([nn.Linear(2, 1) for _ in range(3)])
        >>> params["weight"].shape
        rushlight.Size([3, 1, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model")
    if any(getattr(m, "training", None) != getattr(models[0], "training", None) for m in models):
        raise RuntimeError("stack_module_state: the models must all be in train or in eval mode")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: the models must all be of one class")

    def stacked(kind):
        columns = [dict(getattr(m, kind)()) for m in models]
        out = {}
        for name in columns[0]:
            values = [c[name] for c in columns]
            if kind == "named_buffers":
                out[name] = rushlight.stack(values)
                continue
            flags = {v.requires_grad for v in values}
            if len(flags) > 1:
                raise RuntimeError(
                    f"stack_module_state: {name!r} requires grad in some models, but not in all"
                )
            out[name] = rushlight.stack([v.detach() for v in values]).requires_grad_(flags.pop())
        return out

    return stacked("named_parameters"), stacked("named_buffers")


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Takes the running statistics out of every batch norm below a module, in place: with them a
    module has state that transforms of functions cannot follow. Returns the module.

    Arguments:
        root: the module.

    Example:
        >>> net = rl.func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(2)))
        >>> net[0].running_mean is None
        True
    """
    from rushlight.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
