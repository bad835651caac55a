"""States of FullyShardedDataParallel: of parameters and of optimisers, whole, cut, or local."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed.fsdp.api import (
    CONFIGS,
    OptimStateDictConfig,
    OptimStateKeyType,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor, local_of, wrap
from rushlight.nn import Module, Parameter
from rushlight.utils._pytree import tree_map

PREFIX = "_fsdp_wrapped_module."


def clean(name: str) -> str:
    """A parameter's name without those of wrappers."""
    return name.replace(PREFIX, "")


class Wrapper(Module):
    """What states see of a FullyShardedDataParallel: they are those of the module in it."""

    _fsdp_wrapped_module: Any

    def __init__(self) -> None:
        super().__init__()
        self._settings = StateDictSettings()
        self._register_state_dict_hook(_after_state_dict)
        self._register_load_state_dict_pre_hook(_before_load, with_module=True)
        self.register_load_state_dict_post_hook(_after_load)


def _wrappers(module: Module) -> list[Wrapper]:
    return [m for m in module.modules() if isinstance(m, Wrapper)]


def settings_of(module: Module) -> StateDictSettings:
    """The kind of state of the wrappers in a module, which must be the same for all."""
    found = _wrappers(module)
    if not found:
        raise ValueError(f"{type(module).__name__} has no FullyShardedDataParallel in it")
    kinds = {m._settings.state_dict_type for m in found}
    if len(kinds) > 1:
        raise ValueError(f"the FullyShardedDataParallel modules have states of {len(kinds)} kinds")
    return found[0]._settings


def set_state_dict_type(
    module: Module, kind: StateDictType, config: StateDictConfig | None,
    optim_config: OptimStateDictConfig | None,
) -> StateDictSettings:  # fmt: skip
    """Sets the kind of all wrappers in a module; returns what was set."""
    before = settings_of(module)
    if not isinstance(kind, StateDictType):
        raise TypeError(f"set_state_dict_type: expected a StateDictType, got {kind!r}")
    configs = CONFIGS[kind]
    for given, wanted in ((config, configs[0]), (optim_config, configs[1])):
        if given is not None and not isinstance(given, wanted):
            raise RuntimeError(
                f"set_state_dict_type: {kind.name} takes a {wanted.__name__}, got "
                f"{type(given).__name__}"
            )
    made = StateDictSettings(kind, config or configs[0](), optim_config or configs[1]())
    for m in _wrappers(module):
        m._settings = made
    return before


@contextlib.contextmanager
def cut_states(module: Module) -> Iterator[None]:
    """States inside are of DTensors, where the module has wrappers."""
    wrappers = _wrappers(module)
    before = [m._settings for m in wrappers]
    if wrappers:
        set_state_dict_type(module, StateDictType.SHARDED_STATE_DICT, None, None)
    try:
        yield
    finally:
        for m, settings in zip(wrappers, before, strict=True):
            m._settings = settings


# ---- of modules ----


def _given(value: Any, kind: StateDictType, config: Any) -> Any:
    """A tensor of a state as the kind has it."""
    if isinstance(value, DTensor):
        if kind is StateDictType.FULL_STATE_DICT:
            value = value.full_tensor()
        elif kind is StateDictType.LOCAL_STATE_DICT:
            value = local_of(value)
        elif config.offload_to_cpu:
            local = local_of(value).cpu()
            return wrap(local, value._mesh, value._placements, value.shape)
    if config.offload_to_cpu and isinstance(value, Tensor):
        value = value.cpu()
    return value


def _is_elsewhere(config: Any) -> bool:
    """Is the state another rank's alone?"""
    return getattr(config, "rank0_only", False) and dist.get_rank() != 0


def _after_state_dict(module: Any, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    settings = module._settings
    kind, config = settings.state_dict_type, settings.state_dict_config
    inner = prefix + PREFIX
    for key in [k for k in state if k.startswith(inner)]:
        value = _given(state.pop(key), kind, config)
        if not _is_elsewhere(config):
            state[prefix + key.removeprefix(inner)] = value


def _fitted(value: Any, parameter: Any) -> Any:
    """A tensor of a state, cut as the parameter is."""
    if isinstance(value, DTensor) or not isinstance(parameter, DTensor) or value.dim() == 0:
        return value
    local = local_of(parameter)
    if value.shape == parameter.shape:
        return distribute_tensor(
            value.detach().to(local.device), parameter.device_mesh, parameter.placements,
            src_data_rank=None,
        )  # fmt: skip
    if value.shape == local.shape:
        return wrap(value.detach(), parameter._mesh, parameter._placements, parameter.shape)
    return value  # load_state_dict says what does not fit


def _before_load(module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    inner = prefix + PREFIX
    for key in [k for k in state if k.startswith(prefix) and not k.startswith(inner)]:
        state[inner + key.removeprefix(prefix)] = state.pop(key)
    wrapped = module._fsdp_wrapped_module
    own = {id(p) for p in wrapped._fsdp_unit.parameters}
    for name, parameter in wrapped.named_parameters(remove_duplicate=False):
        if id(parameter) in own and inner + name in state:
            state[inner + name] = _fitted(state[inner + name], parameter)


def _after_load(module: Any, keys: Any) -> None:
    for names in (keys.missing_keys, keys.unexpected_keys):
        names[:] = [clean(name) for name in names]


@contextlib.contextmanager
def summon_full_params(
    module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
    offload_to_cpu: bool = False, with_grads: bool = False,
) -> Iterator[None]:  # fmt: skip
    """Whole parameters stand in the modules inside; what is written to them is kept after it.

    Args:
        module: with FullyShardedDataParallel modules in it.
        recurse: whether those inside of others as well.
        writeback: whether changes are kept.
        rank0_only: whether other ranks go on with their parts; needs ``writeback=False``.
        offload_to_cpu: whether the whole parameters lie in the host's memory.
        with_grads: whether gradients are whole, too.
    """
    if rank0_only and writeback:
        raise NotImplementedError(
            "summon_full_params: with rank0_only the other ranks do not see what is written; set "
            "writeback=False"
        )
    wrappers = _wrappers(module)
    if not recurse:
        wrappers = [m for m in wrappers if m is module]
    units = [m._fsdp_wrapped_module._fsdp_unit for m in wrappers]
    held = [[_whole(p, offload_to_cpu, with_grads) for p in unit.parameters] for unit in units]
    shown = not rank0_only or dist.get_rank() == 0
    for unit, whole in zip(units, held, strict=True):
        for (owner, name), i in zip(unit.places, unit.indices, strict=True):
            if shown:
                owner._parameters[name] = whole[i]
    try:
        yield
    finally:
        for unit, whole in zip(units, held, strict=True):
            for (owner, name), i in zip(unit.places, unit.indices, strict=True):
                owner._parameters[name] = unit.parameters[i]
            if writeback:
                for parameter, value in zip(unit.parameters, whole, strict=True):
                    _write_back(parameter, value, with_grads)


def _whole(parameter: Any, on_cpu: bool, with_grads: bool) -> Parameter:
    def gathered(t: Any) -> Any:
        value = t.detach().full_tensor().clone()
        return value.cpu() if on_cpu else value

    whole = Parameter(gathered(parameter), requires_grad=parameter.requires_grad)
    if with_grads and parameter.grad is not None:
        whole.grad = gathered(parameter.grad)
    return whole


def _write_back(parameter: Any, whole: Any, with_grads: bool) -> None:
    with rushlight.no_grad():
        local_of(parameter).copy_(local_of(_fitted(whole.detach(), parameter)))
        if with_grads and whole.grad is not None and parameter.grad is not None:
            local_of(parameter.grad).copy_(local_of(_fitted(whole.grad, parameter)))


# ---- of optimisers ----


def _names(model: Module) -> dict[int, str]:
    return {id(p): clean(name) for name, p in model.named_parameters()}


def _by_name(model: Module, optim: Any, raw: dict[str, Any] | None) -> dict[str, Any]:
    """An optimiser's state under the names of parameters."""
    raw = optim.state_dict() if raw is None else raw
    names = _names(model)
    params = [p for group in optim.param_groups for p in group["params"]]
    if any(id(p) not in names for p in params):
        raise ValueError(
            "optim_state_dict: the optimiser has a parameter that is none of the model's; it was "
            "made before the model was wrapped, or for another one"
        )
    found = [names[id(p)] for p in params]
    numbers = [i for group in raw["param_groups"] for i in group["params"]]
    known = dict(zip(numbers, found, strict=True))
    return {
        "state": {known[i]: dict(values) for i, values in raw["state"].items()},
        "param_groups": [
            {**group, "params": [known[i] for i in group["params"]]}
            for group in raw["param_groups"]
        ],
    }


def _told(model: Module, optim: Any, raw: Any, kind: StateDictType, config: Any) -> dict[str, Any]:
    state = _by_name(model, optim, raw)
    state["state"] = tree_map(lambda value: _given(value, kind, config), state["state"])
    return {} if _is_elsewhere(config) else state


def optim_state_dict(
    model: Module, optim: Any, optim_state_dict: dict[str, Any] | None = None, group: Any = None
) -> dict[str, Any]:
    """The state of an optimiser by the names of parameters, of the model's kind: whole tensors by
    default. ``optim_state_dict``: in place of ``optim.state_dict()``."""
    settings = settings_of(model)
    kind = settings.state_dict_type
    return _told(model, optim, optim_state_dict, kind, settings.optim_state_dict_config)


def full_optim_state_dict(
    model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
) -> dict[str, Any]:
    """The same of whole tensors, on rank 0 alone unless ``rank0_only`` is False."""
    config = CONFIGS[StateDictType.FULL_STATE_DICT][1](True, rank0_only)  # type: ignore[call-arg]
    return _told(model, optim, None, StateDictType.FULL_STATE_DICT, config)


def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
    """The same of DTensors."""
    config = CONFIGS[StateDictType.SHARDED_STATE_DICT][1](False)
    return _told(model, optim, None, StateDictType.SHARDED_STATE_DICT, config)


def optim_state_dict_to_load(
    model: Module, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False,
    load_directly: bool = False, group: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """What ``optim.load_state_dict`` takes of such a state; ``load_directly`` gives it to it."""
    names = _names(model)
    params = [p for group_ in optim.param_groups for p in group_["params"]]
    by_name = {names.get(id(p), ""): (i, p) for i, p in enumerate(params)}
    unknown = [n for n in optim_state_dict["state"] if n not in by_name]
    if unknown:
        raise ValueError(f"optim_state_dict_to_load: the optimiser has no parameter {unknown[0]!r}")
    state = {}
    for name, values in optim_state_dict["state"].items():
        number, parameter = by_name[name]
        # Copies: steps write to them, and the state may be loaded again.
        state[name if is_named_optimizer else number] = {
            key: _fitted(value, parameter).clone() if isinstance(value, Tensor) else value
            for key, value in values.items()
        }
    groups = [
        {**g, "params": [n if is_named_optimizer else by_name[n][0] for n in g["params"]]}
        for g in optim_state_dict["param_groups"]
    ]
    made = {"state": state, "param_groups": groups}
    if load_directly:
        optim.load_state_dict(made)
    return made


def shard_full_optim_state_dict(
    full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None, optim: Any = None
) -> dict[str, Any]:
    """What ``optim.load_state_dict`` takes of a whole state."""
    if optim is None:
        raise ValueError("shard_full_optim_state_dict: give the optimiser as optim=")
    return optim_state_dict_to_load(model, optim, full_optim_state_dict)


def rekey_optim_state_dict(
    optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module,
    optim_input: Any = None, optim: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """A whole state under the numbers of parameters, or numbers' under their names: between models
    that are cut and others."""
    names = [clean(name) for name, _ in model.named_parameters()]
    if optim is not None:
        known = _names(model)
        names = [known[id(p)] for group in optim.param_groups for p in group["params"]]
    to_name = optim_state_key_type is OptimStateKeyType.PARAM_NAME
    keys: dict[Any, Any] = (
        dict(enumerate(names)) if to_name else {n: i for i, n in enumerate(names)}
    )
    return {
        "state": {keys[k]: values for k, values in optim_state_dict["state"].items()},
        "param_groups": [
            {**g, "params": [keys[k] for k in g["params"]]}
            for g in optim_state_dict["param_groups"]
        ],
    }
