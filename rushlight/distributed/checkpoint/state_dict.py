"""The states of models and optimisers by the names of parameters, however they are cut."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.fsdp._full_states import cut_states
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor, local_of, wrap
from rushlight.nn import Module
from rushlight.nn.parallel import DataParallel, DistributedDataParallel
from rushlight.optim import Optimizer
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

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
    """How states are given and taken.

    Arguments:
        full_state_dict: whole tensors in place of DTensors.
        cpu_offload: on the CPU; with full_state_dict, on rank 0 only, and elsewhere empty.
        ignore_frozen_params: without parameters that need no gradient.
        keep_submodule_prefixes: the states of ``submodules`` keep their names in the model.
        strict: names that are missing or too many are an error.
        broadcast_from_rank0: rank 0's whole state is everybody's; goes with full_state_dict.
        flatten_optimizer_state_dict: the optimiser's state has names such as
            "state.weight.exp_avg" and "param_groups.weight.lr", and no lists.
        dsd_fqn_modifiers: has no effect.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


_WRAPPED = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _clean(model: Module, name: str) -> str:
    """A name without the parts that wrappers add."""
    kept = []
    at: Any = model
    for part in name.split("."):
        added = part == "module" and isinstance(at, (DataParallel, DistributedDataParallel))
        if not added and part not in _WRAPPED:
            kept.append(part)
        at = getattr(at, part, None)
    return ".".join(kept)


def _state_of(model: Module) -> dict[str, tuple[str, Any]]:
    """{clean name: (the model's own name, value)}."""
    with cut_states(model):
        return {_clean(model, name): (name, value) for name, value in model.state_dict().items()}


def _on_cpu(value: Any) -> Any:
    if isinstance(value, DTensor):
        local = local_of(value).detach().cpu()
        return wrap(local, value.device_mesh, tuple(value.placements), value.shape)
    return value.detach().cpu() if isinstance(value, Tensor) else value


def _given(value: Any, options: StateDictOptions) -> Any:
    if options.full_state_dict:
        value = tree_map(lambda t: t.full_tensor() if isinstance(t, DTensor) else t, value)
        if options.cpu_offload and dist.is_initialized() and dist.get_rank() != 0:
            return {}
    return tree_map(_on_cpu, value) if options.cpu_offload else value


def _shared(value: Any, options: StateDictOptions) -> Any:
    """Rank 0's state on all ranks; the others' tensors are yet to be filled."""
    if not options.broadcast_from_rank0 or not dist.is_initialized():
        return value
    leaves, tree = tree_flatten(value)
    known = [_Room(t.shape, t.dtype) if isinstance(t, Tensor) else t for t in leaves]
    sent = [(known, tree)]
    dist.broadcast_object_list(sent, 0)
    if dist.get_rank() == 0:
        return value
    rooms = [rushlight.empty(t.shape, dtype=t.dtype) if isinstance(t, _Room) else t
             for t in sent[0][0]]  # fmt: skip
    return tree_unflatten(rooms, sent[0][1])


@dataclass
class _Room:
    """A tensor that comes later."""

    shape: Any
    dtype: Any


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
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model under the names it has without wrappers (DistributedDataParallel,
    FullyShardedDataParallel, checkpoint_wrapper, compile).

    Arguments:
        model: a module, in wrappers or not.
        submodules: only the states of these (deprecated).
        options: a StateDictOptions.
    """
    options = _checked(options)
    state = {name: value for name, (_, value) in _state_of(model).items()}
    if submodules:
        state = _only(model, submodules, state, options)
    if options.ignore_frozen_params:
        for name, p in model.named_parameters():
            if not p.requires_grad:
                state.pop(_clean(model, name), None)
    return _given(state, options)


def _only(model, submodules, state, options):
    """The state of some modules in the model."""
    warnings.warn(
        "submodules= is deprecated; take what you need out of the whole state", FutureWarning, 3
    )
    kept = {}
    for name, module in model.named_modules():
        if module in submodules:
            prefix = _clean(model, name) + "."
            for key in state:
                if key.startswith(prefix):
                    new = key if options.keep_submodule_prefixes else key[len(prefix) :]
                    kept[new] = state[key]
    return kept


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> tuple[list[str], list[str]]:
    """Loads such a state; whole tensors are cut as the model's are. Returns the missing and the
    unexpected names."""
    options = _checked(options)
    targets = _state_of(model)
    given = _shared(model_state_dict, options)
    fitted = {}
    for name, value in given.items():
        own, target = targets.get(name, (name, None))
        fitted[own] = _fitted(value, target, options)
    strict = options.strict
    if options.ignore_frozen_params:
        for name, p in model.named_parameters():
            own, value = targets.get(_clean(model, name), (name, None))
            if not p.requires_grad and own not in fitted:
                fitted[own] = value
    on_meta = any(isinstance(t, Tensor) and t.device.type == "meta" for _, t in targets.values())
    return model.load_state_dict(fitted, strict=strict, assign=on_meta)


def _names_of(model: Module) -> dict[int, str]:
    return {id(p): _clean(model, name) for name, p in model.named_parameters()}


def _init_optim_state(optim: Optimizer) -> None:
    """An optimiser makes its state in the first step: one that changes nothing."""
    params = [p for group in optim.param_groups for p in group["params"]]
    if optim.state or any(p.grad is not None for p in params):
        return  # it has one, or needs none
    rates = [group.get("lr") for group in optim.param_groups]
    with rushlight.no_grad():
        for p in params:
            if p.requires_grad:
                p.grad = rushlight.zeros_like(p)
        for group, rate in zip(optim.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rushlight.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
        optim.step()
        for group, rate in zip(optim.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        for p in params:
            p.grad = None


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The states of optimisers, by the names of the model's parameters. An optimiser that has not
    stepped makes a step with gradients of zero and a rate of zero, to have one."""
    options = _checked(options)
    names = _names_of(model)
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            kept = {key: value for key, value in group.items() if key != "params"}
            wanted = [p for p in group["params"]
                      if p.requires_grad or not options.ignore_frozen_params]  # fmt: skip
            kept["params"] = [names[id(p)] for p in wanted]
            whole["param_groups"].append(kept)
            for p in wanted:
                if p in optimizer.state:
                    whole["state"][names[id(p)]] = dict(optimizer.state[p])
    if submodules:
        whole = _of_submodules(model, submodules, whole, options)
    return _given(_flat(whole) if options.flatten_optimizer_state_dict else whole, options)


def _of_submodules(model, submodules, whole, options):
    kept = _only(model, submodules, whole["state"], options)
    names = _only(model, submodules, {n: n for g in whole["param_groups"] for n in g["params"]},
                  options)  # fmt: skip
    new = {old: name for name, old in names.items()}
    groups = [{**g, "params": [new[n] for n in g["params"] if n in new]}
              for g in whole["param_groups"]]  # fmt: skip
    return {"state": kept, "param_groups": [g for g in groups if g["params"]]}


def _flat(whole: dict[str, Any]) -> dict[str, Any]:
    """state.NAME.KEY and param_groups.NAME.KEY."""
    flat: dict[str, Any] = {}

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{prefix}.{key}", inner)
        else:
            flat[prefix] = value

    for name, state in whole["state"].items():
        add(f"state.{name}", state)
    for group in whole["param_groups"]:
        for name in group["params"]:
            for key, value in group.items():
                if key != "params":
                    flat[f"param_groups.{name}.{key}"] = value
    return flat


def _nested(flat: dict[str, Any], optimizers: list[Optimizer], names: dict[int, str]) -> Any:
    """The reverse, for the groups that the optimisers have."""
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            found: dict[str, Any] = {"params": [names[id(p)] for p in group["params"]]}
            for name in found["params"]:
                for key in group:
                    if f"param_groups.{name}.{key}" in flat:
                        found[key] = flat[f"param_groups.{name}.{key}"]
                prefix = f"state.{name}."
                for key, value in flat.items():
                    if key.startswith(prefix):
                        state = whole["state"].setdefault(name, {})
                        *outer, last = key[len(prefix) :].split(".")
                        for part in outer:
                            state = state.setdefault(part, {})
                        state[last] = value
            whole["param_groups"].append(found)
    return whole


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Loads such states; whole tensors are cut as the parameters are."""
    options = _checked(options)
    names = _names_of(model)
    listed = _listed(optimizers)
    given = _shared(optim_state_dict, options)
    if options.flatten_optimizer_state_dict or "param_groups" not in given:
        given = _nested(given, listed, names)
    for optimizer in listed:
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            _set_group(optimizer, group, given, names, options)


def _set_group(optimizer, group, given, names, options):
    own = [names[id(p)] for p in group["params"]]
    found = [g for g in given["param_groups"]
             if set(own) & set(g["params"]) or (not own and not g["params"])]  # fmt: skip
    if not found and options.strict and any(p.requires_grad for p in group["params"]):
        raise ValueError(
            f"set_optimizer_state_dict: the state has no group of parameters {own[:8]}"
        )
    for saved in found:
        group.update({k: v for k, v in saved.items() if k != "params" and k in group})
    for p, name in zip(group["params"], own, strict=True):
        state = given["state"].get(name)
        if state is None and options.strict and p.requires_grad and optimizer.state.get(p):
            raise RuntimeError(
                f"set_optimizer_state_dict: the state has nothing of {name}, which needs "
                "gradients; StateDictOptions(strict=False) leaves it as it is"
            )
        for key, value in (state or {}).items():
            target = optimizer.state[p].get(key)
            optimizer.state[p][key] = _fitted(value, target, options)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both states, as get_model_state_dict and get_optimizer_state_dict give them.

    Example:
        >>> from rushlight.distributed.checkpoint.state_dict import get_state_dict
        >>> layer = rl.nn.Linear(2, 1, bias=False)
        >>> model, optim = get_state_dict(layer, rl.optim.Adam(layer.parameters()))
        >>> list(model), list(optim["state"]["weight"])
        (['weight'], ['step', 'exp_avg', 'exp_avg_sq'])
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
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
    if optimizers != ():
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


fill(globals())
