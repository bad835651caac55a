"""The states of models and optimisers by the names of parameters, however they are cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.fsdp._full_states import clean, cut_states
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor
from rushlight.nn import Module
from rushlight.nn.parallel import DataParallel, DistributedDataParallel
from rushlight.optim import Optimizer
from rushlight.utils._pytree import tree_map

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """``full_state_dict``: whole tensors in place of DTensors; with ``cpu_offload`` on rank 0 only.
    ``broadcast_from_rank0``: a whole state is rank 0's."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _inner(model: Module) -> Module:
    while isinstance(model, (DataParallel, DistributedDataParallel)):
        model = model.module
    return model


def _state_of(module: Module) -> dict[str, Any]:
    with cut_states(module):
        return dict(module.state_dict())


def _given(value: Any, options: StateDictOptions) -> Any:
    if not options.full_state_dict:
        return value
    whole = tree_map(lambda t: t.full_tensor() if isinstance(t, DTensor) else t, value)
    elsewhere = options.cpu_offload and dist.is_initialized() and dist.get_rank() != 0
    return {} if elsewhere else whole


def _fitted(value: Any, target: Any, options: StateDictOptions) -> Any:
    """A saved tensor, cut as the target is."""
    if not isinstance(target, DTensor) or isinstance(value, DTensor):
        if options.broadcast_from_rank0 and isinstance(value, Tensor) and dist.is_initialized():
            kinds = dist.group.WORLD._backends if dist.group.WORLD else {}
            fits = value.device.type in kinds or not isinstance(target, Tensor)
            value = value.clone() if fits else value.to(target.device)
            dist.broadcast(value, 0)
        return value
    source = 0 if options.broadcast_from_rank0 else None
    return distribute_tensor(
        value.detach(), target.device_mesh, target.placements, src_data_rank=source
    )


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model under the names it has without DistributedDataParallel around it."""
    options = options or StateDictOptions()
    inner = _inner(model)
    state = _state_of(inner)
    if options.ignore_frozen_params:
        frozen = {clean(name) for name, p in inner.named_parameters() if not p.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    return _given(state, options)


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> tuple[list[str], list[str]]:
    """Loads such a state; whole tensors are cut as the model's are. Returns the missing and the
    unexpected names."""
    options = options or StateDictOptions()
    inner = _inner(model)
    targets = _state_of(inner)
    if options.broadcast_from_rank0 and dist.is_initialized():
        known = [(n, t.shape, t.dtype) for n, t in model_state_dict.items()]
        shared = [known]
        dist.broadcast_object_list(shared, 0)
        if dist.get_rank() != 0:
            model_state_dict = {n: rushlight.empty(s, dtype=d) for n, s, d in shared[0]}
    fitted = {
        name: _fitted(value, targets.get(name), options) for name, value in model_state_dict.items()
    }
    return inner.load_state_dict(fitted, strict=options.strict)


def _names_of(model: Module) -> dict[int, str]:
    return {id(p): clean(name) for name, p in _inner(model).named_parameters()}


def _with_state(optimizer: Optimizer) -> None:
    """An optimiser makes its state in the first step: one that changes nothing."""
    if optimizer.state:
        return
    params = [p for group in optimizer.param_groups for p in group["params"]]
    before = [(p, p.grad) for p in params]
    rates = [group.get("lr") for group in optimizer.param_groups]
    with rushlight.no_grad():
        for p in params:
            if p.requires_grad:
                p.grad = rushlight.zeros_like(p)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rushlight.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        for p, grad in before:
            p.grad = grad


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The states of optimisers, by the names of the model's parameters."""
    options = options or StateDictOptions()
    names = _names_of(model)
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        _with_state(optimizer)
        for group in optimizer.param_groups:
            kept = {key: value for key, value in group.items() if key != "params"}
            kept["params"] = [names[id(p)] for p in group["params"]]
            whole["param_groups"].append(kept)
            for p in group["params"]:
                if p in optimizer.state:
                    whole["state"][names[id(p)]] = dict(optimizer.state[p])
    return _given(whole, options)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Loads such states; whole tensors are cut as the parameters are."""
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        raise NotImplementedError(
            "set_optimizer_state_dict: broadcast_from_rank0 is not there; give all ranks the state"
        )
    names = _names_of(model)
    saved_groups = {tuple(g["params"]): g for g in optim_state_dict["param_groups"]}
    for optimizer in _listed(optimizers):
        _with_state(optimizer)
        for group in optimizer.param_groups:
            key = tuple(names[id(p)] for p in group["params"])
            if key not in saved_groups:
                raise ValueError(
                    f"set_optimizer_state_dict: the state has no group of parameters {list(key)}"
                )
            found = saved_groups[key]
            group.update({k: v for k, v in found.items() if k != "params" and k in group})
            for p in group["params"]:
                for name, value in optim_state_dict["state"].get(names[id(p)], {}).items():
                    target = optimizer.state[p].get(name)
                    optimizer.state[p][name] = _fitted(value, target, options)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both states."""
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> tuple[list[str], list[str]]:
    """Loads both states."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


fill(globals())
