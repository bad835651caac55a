"""FullyShardedDataParallel: a module around another one, whose parameters are cut over the ranks.

It is `fully_shard` with the interface of a wrapper: what it wraps is cut as fully_shard cuts it, so
parameters are DTensors, under the names that they have in the module itself. States are whole
tensors by default, as if nothing had been cut (`state_dict_type`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh, mesh_of_all
from rushlight.distributed.fsdp import _full_states as states
from rushlight.distributed.fsdp._fully_shard import FSDPModule, _cast, fully_shard
from rushlight.distributed.fsdp._policies import CPUOffloadPolicy, MixedPrecisionPolicy
from rushlight.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.fsdp.wrap import wrap_children
from rushlight.nn import Module, Parameter
from rushlight.nn.utils import clip_grad_norm_

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEEPS = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


def _mesh_for(strategy: Any, group: Any, mesh: DeviceMesh | None, kind: str) -> DeviceMesh:
    """The grid of ranks: the last dim cuts, one before it holds copies."""
    if mesh is not None:
        if group is not None:
            raise ValueError(
                "FullyShardedDataParallel: give a process_group or a device_mesh, not both"
            )
        if strategy in _HYBRID and mesh.ndim != 2:
            raise ValueError(
                f"FullyShardedDataParallel: {strategy.name} needs a device_mesh of two dims, got "
                f"{mesh}"
            )
        return mesh
    if strategy in _HYBRID:
        if group is not None:
            raise NotImplementedError(
                f"FullyShardedDataParallel: {strategy.name} takes a device_mesh of two dims "
                "(copies, parts) in place of process groups"
            )
        each = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
        return init_device_mesh(kind, (dist.get_world_size() // each, each))
    if group is None and strategy is not ShardingStrategy.NO_SHARD:
        return mesh_of_all(kind)
    if strategy is ShardingStrategy.NO_SHARD:
        if group is not None:
            raise NotImplementedError(
                "FullyShardedDataParallel: NO_SHARD works with all ranks; use "
                "DistributedDataParallel for a group of some"
            )
        return init_device_mesh(kind, (dist.get_world_size(), 1))
    return DeviceMesh.from_group(group, kind)


def _fill_meta(module: Module, init: Callable[[Module], None] | None, device: Any) -> None:
    """Parameters and buffers without memory get some, and values."""
    for sub in module.modules():
        own = [*sub.parameters(recurse=False), *sub.buffers(recurse=False)]
        if not any(t.is_meta for t in own):
            continue
        if init is not None:
            init(sub)
            continue
        reset = getattr(sub, "reset_parameters", None)
        if reset is None:
            raise ValueError(
                f"FullyShardedDataParallel: {type(sub).__name__} lies on the meta device and has "
                "no reset_parameters(); give a param_init_fn"
            )
        sub.to_empty(device=device or "cpu", recurse=False)
        reset()


class FullyShardedDataParallel(states.Wrapper):
    """A module whose parameters are cut over the ranks, and whole while they compute.

    Args:
        module: what is wrapped.
        process_group: the ranks that share the parameters; all by default.
        sharding_strategy: ``FULL_SHARD`` (the default) drops whole parameters after forward,
            ``SHARD_GRAD_OP`` keeps them until backward, ``NO_SHARD`` only averages gradients,
            ``HYBRID_SHARD`` cuts over the last dim of ``device_mesh`` and copies over the first.
        cpu_offload: where parts lie, see :class:`CPUOffload`.
        auto_wrap_policy: which submodules get a wrapper of their own (``distributed.fsdp.wrap``).
        backward_prefetch: accepted; what is gathered ahead is set by
            ``set_modules_to_backward_prefetch`` of ``module``.
        mixed_precision: see :class:`MixedPrecision`.
        ignored_modules: modules whose parameters stay as they are.
        param_init_fn: called with each submodule that lies on the meta device.
        device_id: the device to which the module is moved first.
        sync_module_states: buffers become those of rank 0 (parameters always do).
        forward_prefetch, limit_all_gathers, use_orig_params: accepted; parameters always have
            their own names and shapes.
        ignored_states: parameters, or modules, that stay as they are.
        device_mesh: a grid of ranks, in place of ``process_group``.

    >>> from rushlight import distributed as dist, nn
    >>> from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> def program(rank):
    ...     model = FSDP(nn.Linear(4, 2))
    ...     return model.weight.to_local().shape, model.state_dict()["weight"].shape
    >>> dist.simulate(2, program)[0]
    (rushlight.Size([1, 4]), rushlight.Size([2, 4]))
    """

    def __init__(
        self, module: Module, process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None, cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None, device_id: Any = None,
        sync_module_states: bool = False, forward_prefetch: bool = False,
        limit_all_gathers: bool = True, use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None, device_mesh: DeviceMesh | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(
                f"FullyShardedDataParallel: expected a module, got {type(module).__name__}"
            )
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if not isinstance(strategy, ShardingStrategy):
            raise TypeError(
                f"FullyShardedDataParallel: expected a ShardingStrategy, got {strategy!r}"
            )
        mixed = mixed_precision or MixedPrecision()
        if mixed.keep_low_precision_grads:
            raise NotImplementedError(
                "FullyShardedDataParallel: keep_low_precision_grads is not there; gradients have "
                "their parameters' dtype"
            )
        given = list(ignored_states or ())
        left = [*(ignored_modules or ()), *(m for m in given if isinstance(m, Module))]
        ignored = {id(p): p for m in left for p in m.parameters()}
        ignored |= {id(p): p for p in given if not isinstance(p, Module)}
        device = _device_of(device_id)
        _fill_meta(module, param_init_fn, device)
        if device is not None:
            module.to(device)
        kinds = {p.device.type for p in module.parameters()}
        kind = kinds.pop() if len(kinds) == 1 else "cpu"
        mesh = _mesh_for(strategy, process_group, device_mesh, kind)
        if sync_module_states:
            for buffer in module.buffers():
                dist.broadcast(buffer, dist.get_process_group_ranks(mesh.get_group(0))[0])
        if auto_wrap_policy is not None:
            options = {
                "sharding_strategy": strategy,
                "cpu_offload": cpu_offload,
                "mixed_precision": mixed,
                "ignored_states": list(ignored.values()),
                "device_mesh": mesh,
            }
            skipped = {id(sub) for m in left for sub in m.modules()}
            _leave_out_of_mixed(module, mixed, options, skipped)
            wrap_children(
                module,
                auto_wrap_policy,
                _child_wrapper(options),
                lambda m: id(m) in skipped or isinstance(m, FullyShardedDataParallel),
            )
        if mixed.buffer_dtype is not None:
            for sub in module.modules():
                for name, buffer in sub._buffers.items():
                    if buffer is not None and buffer.is_floating_point():
                        sub._buffers[name] = buffer.to(mixed.buffer_dtype)
        offloads = cpu_offload is not None and cpu_offload.offload_params
        self._fsdp_wrapped_module = fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=strategy not in _KEEPS,
            mp_policy=MixedPrecisionPolicy(
                mixed.param_dtype, mixed.reduce_dtype, cast_forward_inputs=False
            ),
            offload_policy=CPUOffloadPolicy() if offloads else None,
            ignored_params=set(ignored.values()),
        )
        self.process_group = mesh.get_group(mesh.ndim - 1)
        self.sharding_strategy = strategy
        self.mixed_precision = mixed
        self._is_root = True
        for inner in self.fsdp_modules(self):
            if inner is not self:
                inner._is_root = False

    @property
    def module(self) -> Module:
        """What is wrapped."""
        return self._fsdp_wrapped_module

    def check_is_root(self) -> bool:
        """Is there no FullyShardedDataParallel around it?"""
        return self._is_root

    def __getattr__(self, name: str) -> Any:
        """Attributes of the wrapped module are its own."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_fsdp_wrapped_module":
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Module:
        """Parts of the wrapped module, where it has such."""
        return self._fsdp_wrapped_module[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped module's."""
        mixed = self.mixed_precision
        casts = mixed.cast_root_forward_inputs if self._is_root else mixed.cast_forward_inputs
        if mixed.param_dtype is not None and casts:
            args, kwargs = _cast((args, kwargs), mixed.param_dtype)
        return self._fsdp_wrapped_module(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """The parameters, under the names they have without wrappers."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield states.clean(name), parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """The buffers, under the names they have without wrappers."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield states.clean(name), buffer

    def apply(self, fn: Callable[[Module], None]) -> FullyShardedDataParallel:
        """Calls ``fn`` with each submodule, whose parameters are whole meanwhile."""
        with self.summon_full_params(self):
            super().apply(fn)
        return self

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward inside only collects gradients; the next one outside averages all."""
        units = [m._fsdp_unit for m in self.modules() if isinstance(m, FSDPModule)]
        before = [unit.syncs for unit in units]
        for unit in units:
            unit.syncs = False
        try:
            yield
        finally:
            for unit, syncs in zip(units, before, strict=True):
                unit.syncs = syncs

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clips by the norm of all ranks' gradients together, which is returned."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Not there: raises."""
        raise NotImplementedError(
            "FullyShardedDataParallel.register_comm_hook: gradients are reduced by reduce_scatter; "
            "MixedPrecision(reduce_dtype=...) sets its dtype"
        )

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The FullyShardedDataParallel modules in a module; with ``root_only`` the outermost."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return [m for m in found if m.check_is_root()] if root_only else found

    summon_full_params = staticmethod(states.summon_full_params)
    optim_state_dict = staticmethod(states.optim_state_dict)
    optim_state_dict_to_load = staticmethod(states.optim_state_dict_to_load)
    full_optim_state_dict = staticmethod(states.full_optim_state_dict)
    sharded_optim_state_dict = staticmethod(states.sharded_optim_state_dict)
    shard_full_optim_state_dict = staticmethod(states.shard_full_optim_state_dict)
    rekey_optim_state_dict = staticmethod(states.rekey_optim_state_dict)

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:  # fmt: skip
        """The kind of state that the module gives and takes from now on; returns what was set."""
        return states.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What is set."""
        return states.settings_of(module)

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """The kind of state inside."""
        before = states.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            states.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config,
                before.optim_state_dict_config,
            )  # fmt: skip


def _device_of(device_id: Any) -> Any:
    if device_id is None:
        return None
    if isinstance(device_id, int):
        return rushlight.device("cuda", device_id)
    return rushlight.device(device_id)


def _child_wrapper(options: dict[str, Any]) -> Callable[..., Module]:
    def wrapper(module: Module, **own: Any) -> Module:
        return FullyShardedDataParallel(module, **{**options, **own})

    return wrapper


def _leave_out_of_mixed(
    module: Module, mixed: MixedPrecision, options: dict[str, Any], skipped: set[int]
) -> None:
    """Modules of some classes (batch norms) compute in float32: they get a wrapper that casts."""
    kinds = tuple(mixed._module_classes_to_ignore)
    if not kinds or mixed.param_dtype is None:
        return
    plain = {**options, "mixed_precision": MixedPrecision()}
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if not isinstance(child, kinds) or id(child) in skipped:
                continue
            if not any(True for _ in child.parameters()):
                continue
            wrapped = FullyShardedDataParallel(child, **plain)
            wrapped.register_forward_pre_hook(lambda m, args: _cast(args, rushlight.float32))
            wrapped.register_forward_hook(
                lambda m, args, output, to=mixed.param_dtype: _cast(output, to)
            )
            setattr(parent, name, wrapped)
            skipped.add(id(wrapped))
            skipped.add(id(child))
