"""Modules whose parameters are DTensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.distributed._placements import Replicate
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor
from rushlight.nn import Module, Parameter

__all__ = ["distribute_module"]


def distribute_parameter(
    module: Module, name: str, mesh: DeviceMesh, placements: Any, source: int | None = 0
) -> None:
    """A parameter of a module becomes a DTensor."""
    parameter = module._parameters[name]
    if parameter is None or isinstance(parameter, DTensor):
        return
    made = distribute_tensor(parameter.detach(), mesh, placements, src_data_rank=source)
    module.register_parameter(name, Parameter(made, requires_grad=parameter.requires_grad))


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """The module with DTensors as parameters: ``partition_fn(name, submodule, mesh)`` makes some,
    all others are replicated. ``input_fn(module, inputs, mesh)`` and ``output_fn(module, outputs,
    mesh)`` change what goes in and out."""
    from rushlight.distributed.tensor._dtensor import _mesh_or_default

    mesh = _mesh_or_default(device_mesh)
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError("distribute_module: this module was distributed before")
    module._distribute_module_applied = True
    for name, child in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, child, mesh)
        for key in list(child._parameters):
            distribute_parameter(child, key, mesh, [Replicate()] * mesh.ndim)
    if input_fn is not None:
        change = input_fn
        module.register_forward_pre_hook(lambda m, inputs: change(m, inputs, mesh))
    if output_fn is not None:
        turn = output_fn
        module.register_forward_hook(lambda m, inputs, outputs: turn(m, outputs, mesh))
    return module
