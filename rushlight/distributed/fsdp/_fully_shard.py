"""fully_shard, and what it makes of a module."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from rushlight._C import Tensor
from rushlight.distributed.device_mesh import DeviceMesh, mesh_of_all
from rushlight.distributed.fsdp._policies import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
)
from rushlight.distributed.fsdp._unit import Unit, placements_of, shard_again
from rushlight.distributed.tensor._dtensor import DTensor, local_of, wrap
from rushlight.distributed.tensor._modules import distribute_parameter
from rushlight.nn import Module, ModuleDict, ModuleList, Parameter
from rushlight.utils._pytree import tree_map

__all__ = ["FSDPModule", "fully_shard", "register_fsdp_forward_method"]

_M = TypeVar("_M")  # a module, or a list of modules


class FSDPModule:
    """What fully_shard adds to a module's class."""

    _fsdp_unit: Unit

    def _units(self, recurse: bool = True) -> list[Unit]:
        assert isinstance(self, Module)
        modules = self.modules() if recurse else [self]
        return [m._fsdp_unit for m in modules if isinstance(m, FSDPModule)]

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward averages gradients; without, whole ones are collected until it does."""
        for unit in self._units(recurse):
            unit.syncs = requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether whole parameters are dropped after forward and gathered again in backward."""
        for unit in self._units(recurse):
            unit.drops = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Accepted: whole parameters never outlive backward."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """On a mesh of two dims: whether the copies of cut models average their gradients, too.
        False together with gradient sync is not there."""
        for unit in self._units(recurse):
            if not requires_all_reduce and unit.replicas is not None and unit.syncs:
                raise NotImplementedError(
                    "set_requires_all_reduce(False): use set_requires_gradient_sync(False), which "
                    "leaves out both steps"
                )

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divides sums of gradients by this, in place of the number of ranks."""
        for unit in self._units(False):
            unit.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: gradients are reduced in each backward."""

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """While this module computes forward, the parameters of these are gathered."""
        self._fsdp_unit.ahead_forward = _units_of("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """While this module computes backward, the parameters of these are gathered again."""
        self._fsdp_unit.ahead_backward = _units_of("set_modules_to_backward_prefetch", modules)

    def reshard(self) -> None:
        """Parameters are cut already, but for those in use."""

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Begins to gather the parameters, which the next forward takes. Outside of forward they
        stay DTensors; full_tensor() of one gives all of it."""
        unit = self._fsdp_unit
        unit.prefetch()
        if async_op:
            return UnshardHandle(unit)
        UnshardHandle(unit).wait()
        return None


class UnshardHandle:
    """Parameters that are being gathered."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Waits until they are here."""
        if self._unit._begun is not None:
            self._unit._begun.wait()


def _units_of(what: str, modules: list[Any]) -> list[Unit]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"{what}: {type(module).__name__} was not cut by fully_shard")
    return [module._fsdp_unit for module in modules]


def _mesh_of(mesh: DeviceMesh | None, modules: list[Any]) -> DeviceMesh:
    places = {p.device.type for m in modules for p in m.parameters()} - {"meta"}
    made = mesh_of_all(places.pop() if len(places) == 1 else None) if mesh is None else mesh
    if made.ndim > 2:
        raise ValueError(f"fully_shard: the mesh must have one or two dims, got {made}")
    return made


def _check_dims(module: Module) -> None:
    for name, p in module.named_parameters():
        if p.dim() == 0:
            raise ValueError(
                f"fully_shard: the parameter {name} has no dim to cut; give it the shape [1]"
            )


def fully_shard(
    module: _M,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
) -> _M:
    """Cuts the parameters of a module (or of several, as one) over the ranks along dim 0, but for
    those of submodules that were cut before: call it on inner modules first, on the whole last.

    The parameters are DTensors then, and gradients and optimiser states are of their size. Forward
    and backward gather a module's parameters for as long as they need them.
    ``reshard_after_forward=None`` drops them after forward, and keeps those of a module without
    cut submodules around it no longer than its graph.
    """
    if shard_placement_fn is not None:
        raise NotImplementedError("fully_shard: shard_placement_fn is not there; dim 0 is cut")
    modules: list[Any] = list(module) if isinstance(module, (list, tuple)) else [module]
    grid = _mesh_of(mesh, modules)
    offload = offload_policy if isinstance(offload_policy, CPUOffloadPolicy) else None
    if grid.device_type == "cpu":
        offload = None  # they are there
    ignored = {id(p) for p in ignored_params or ()}
    done = {
        id(p) for m in modules for sub in m.modules() if isinstance(sub, FSDPModule)
        for p in sub._fsdp_unit.parameters
    }  # fmt: skip
    for m in modules:
        _check_dims(m)
        left = any(id(p) not in done and id(p) not in ignored for p in m.parameters())
        if isinstance(m, (ModuleList, ModuleDict)) and left:  # nothing would ever gather those
            raise ValueError(
                f"fully_shard: a {type(m).__name__} has no forward; cut the modules in it"
            )
        if isinstance(m, FSDPModule):
            raise AssertionError("fully_shard: each module can be cut once")
    places, shared = [], {}
    for m in modules:
        for sub in m.modules():
            for name, p in list(sub._parameters.items()):
                if p is None or id(p) in ignored or id(p) in done:
                    continue
                key = id(p)
                if key in shared:
                    sub._parameters[name] = shared[key]
                else:
                    if isinstance(p, DTensor):
                        made = shard_again(p, grid)
                        kept = Parameter(made, requires_grad=p.requires_grad)
                        sub.register_parameter(name, kept)
                    else:
                        distribute_parameter(sub, name, grid, placements_of(grid))
                    if offload is not None:
                        _keep_on_cpu(sub, name, offload)
                    shared[key] = sub._parameters[name]
                places.append((sub, name))
    drops = True if reshard_after_forward is None else bool(reshard_after_forward)
    unit = Unit(places, grid, mp_policy or MixedPrecisionPolicy(), drops)
    unit.computes_on = grid.device_type if offload is not None else None
    for m in modules:
        _watch(m, unit, first=m is modules[0], last=m is modules[-1])
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Lets a method beside forward find whole parameters, too: ``generate``, say. Modules that
    fully_shard did not cut are left as they are.

    Arguments:
        module: one that fully_shard has cut.
        method_name: the name of its method.
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name, None)
    if not callable(method):
        raise ValueError(
            f"register_fsdp_forward_method: {type(module).__name__} has no method {method_name!r}"
        )
    unit = module._fsdp_unit

    @functools.wraps(method)
    def gathered(*args: Any, **kwargs: Any) -> Any:
        if unit.parameters:
            unit.put()
        try:
            return method(*args, **kwargs)
        finally:
            unit.take()

    setattr(module, method_name, gathered)


def _keep_on_cpu(module: Module, name: str, policy: CPUOffloadPolicy) -> None:
    """A parameter's part lies in the host's memory, and so do its gradient and what optimisers
    keep."""
    parameter: Any = module._parameters[name]
    local = local_of(parameter).detach().cpu()
    if policy.pin_memory:
        local = local.pin_memory()
    made = wrap(local, parameter._mesh, parameter._placements, parameter.shape)
    module.register_parameter(name, Parameter(made, requires_grad=parameter.requires_grad))


def _cast(values: Any, dtype: Any) -> Any:
    def one(value: Any) -> Any:
        floats = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(dtype) if floats else value

    return tree_map(one, values)


def _watch(module: Module, unit: Unit, first: bool, last: bool) -> None:
    kind = type(module)
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    module._fsdp_unit = unit
    policy = unit.policy

    def before(m: Any, args: Any, kwargs: Any) -> Any:
        if first and unit.parameters:
            unit.put()
        if policy.param_dtype is not None and policy.cast_forward_inputs:
            return _cast((args, kwargs), policy.param_dtype)
        return args, kwargs

    def after(m: Any, args: Any, output: Any) -> Any:
        if last:
            unit.take()
        return output if policy.output_dtype is None else _cast(output, policy.output_dtype)

    module.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
    module.register_forward_hook(after, always_call=True)
