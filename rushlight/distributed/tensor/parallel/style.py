"""Styles: how a module's parameters are cut, and how its inputs and outputs lie."""

from __future__ import annotations

import abc
import fnmatch
import warnings
from typing import Any

from rushlight._C import Tensor
from rushlight.distributed._placements import Placement, Replicate, Shard
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._modules import distribute_parameter
from rushlight.nn import Embedding, Linear, Module

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "parallelize_module",
]


class ParallelStyle(abc.ABC):
    """How a module is made parallel."""

    src_data_rank: int | None = 0

    @abc.abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


def _arranged(value: Any, layout: Placement | None, desired: Placement | None, mesh: Any) -> Any:
    """A tensor that lies as ``layout`` says, moved to ``desired``; anything else as it is."""
    if layout is None or not isinstance(value, Tensor):
        return value
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [layout])
    return value if desired is None else value.redistribute(mesh, [desired])


def _out(value: Any, layout: Placement | None, mesh: Any, local: bool) -> Any:
    if not isinstance(value, DTensor):
        return value
    moved = value if layout is None else value.redistribute(mesh, [layout])
    return moved.to_local() if local else moved


class _LayerStyle(ParallelStyle):
    """Of one layer with weights: its first input and its output have layouts."""

    _input: Placement = Replicate()
    _output: Placement = Replicate()
    _desired: Placement = Replicate()

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.input_layouts: tuple[Any, ...] = (input_layouts or self._input,)
        self.output_layouts: tuple[Any, ...] = (output_layouts or self._output,)
        self.desired_input_layouts: tuple[Any, ...] = (self._desired,)
        self.use_local_output = use_local_output

    def _placements(self, module: Module, name: str) -> Placement:
        raise NotImplementedError

    def _input_for(self, module: Module) -> Any:
        return self.desired_input_layouts[0]

    def _check(self, module: Module) -> None:
        """Raises for a module that the style does not fit."""
        if not isinstance(module, (Linear, Embedding)):
            raise NotImplementedError(
                f"{type(self).__name__}: nn.Linear and nn.Embedding are supported, got "
                f"{type(module).__name__}"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self._check(module)
        for name in list(module._parameters):
            placement = self._placements(module, name)
            distribute_parameter(module, name, device_mesh, [placement], self.src_data_rank)
        desired = self._input_for(module)

        def before(m: Any, inputs: Any) -> Any:
            first = _arranged(inputs[0], self.input_layouts[0], desired, device_mesh)
            return (first, *inputs[1:])

        def after(m: Any, inputs: Any, output: Any) -> Any:
            return _out(output, self.output_layouts[0], device_mesh, self.use_local_output)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


class ColwiseParallel(_LayerStyle):
    """Cuts the outputs of an nn.Linear, or the columns of an nn.Embedding, over the ranks."""

    _output = Shard(-1)

    def _placements(self, module: Module, name: str) -> Placement:
        return Shard(1) if isinstance(module, Embedding) else Shard(0)


class RowwiseParallel(_LayerStyle):
    """Cuts the inputs of an nn.Linear, or the rows of an nn.Embedding, over the ranks, and adds the
    ranks' results."""

    _input = _desired = Shard(-1)

    def _input_for(self, module: Module) -> Any:
        return Replicate() if isinstance(module, Embedding) else Shard(-1)

    def _placements(self, module: Module, name: str) -> Placement:
        if isinstance(module, Embedding):
            return Shard(0)
        return Shard(1) if name == "weight" else Replicate()


class SequenceParallel(_LayerStyle):
    """Keeps the weights of LayerNorm, RMSNorm or Dropout whole, and cuts the sequence."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__(use_local_output=use_local_output)
        self.sequence_sharding = self.input_layouts = (Shard(sequence_dim),)
        self.desired_input_layouts = self.sequence_sharding
        self.output_layouts = (None,)

    def _check(self, module: Module) -> None:
        """Any module will do."""

    def _placements(self, module: Module, name: str) -> Placement:
        return Replicate()


def _as_tuple(layouts):
    if layouts is None or isinstance(layouts, tuple):
        return layouts
    return tuple(layouts) if isinstance(layouts, list) else (layouts,)


class PrepareModuleInput(ParallelStyle):
    """Moves a module's inputs from ``input_layouts`` to ``desired_input_layouts``; None leaves one
    as it is."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _as_tuple(input_layouts)
        self.desired_input_layouts = _as_tuple(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("PrepareModuleInput: desired_input_layouts are missing")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError(
                    "PrepareModuleInput: there are as many desired_input_layouts as input_layouts"
                )

    def _one(self, value: Any, layout: Any, desired: Any, mesh: DeviceMesh) -> Any:
        moved = _arranged(value, layout, desired, mesh)
        local = self.use_local_output and layout is not None and isinstance(moved, DTensor)
        return moved.to_local() if local else moved

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def before(m: Any, args: Any, kwargs: Any) -> Any:
            if self.input_layouts is not None:
                if len(args) != len(self.input_layouts):
                    raise ValueError(
                        "PrepareModuleInput: the module was given another number of inputs"
                    )
                assert self.desired_input_layouts is not None
                args = tuple(
                    self._one(a, layout, desired, device_mesh)
                    for a, layout, desired in zip(
                        args, self.input_layouts, self.desired_input_layouts, strict=True
                    )
                )
            for name, layout in self.input_kwarg_layouts.items():
                if name in kwargs:
                    desired = self.desired_input_kwarg_layouts.get(name)
                    kwargs[name] = self._one(kwargs[name], layout, desired, device_mesh)
            return args, kwargs

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Moves a module's outputs from ``output_layouts`` to ``desired_output_layouts``."""

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _as_tuple(output_layouts)
        self.desired_output_layouts = _as_tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "PrepareModuleOutput: there are as many desired_output_layouts as output_layouts"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def after(m: Any, inputs: Any, outputs: Any) -> Any:
            several = isinstance(outputs, (tuple, list))
            listed = outputs if several else (outputs,)
            if len(listed) != len(self.output_layouts):
                raise ValueError("PrepareModuleOutput: the module gave another number of outputs")
            moved = []
            for value, layout, desired in zip(
                listed, self.output_layouts, self.desired_output_layouts, strict=True
            ):
                value = _arranged(value, layout, desired, device_mesh)
                moved.append(_out(value, None, device_mesh, self.use_local_output))
            return tuple(moved) if several else moved[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput in one."""

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False, output_layouts: Any, desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


def _matching(module: Module, path: str) -> list[Module]:
    """The submodules of a path whose parts may be patterns, such as ``layers.*.wq``."""
    found = [module]
    for token in path.split("."):
        found = [
            child
            for parent in found
            for name, child in parent.named_children()
            if fnmatch.fnmatch(name, token)
        ]
    return found


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Applies a style to a module, or those of a dict to the submodules its keys name."""
    from rushlight.distributed.tensor._dtensor import _mesh_or_default

    mesh = _mesh_or_default(device_mesh)
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: the mesh must have one dim, got {mesh}; take one by its name, as "
            'in mesh["tp"]'
        )
    if parallelize_plan is None:
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "parallelize_module: the plan is a style or a dict of paths and styles, got a "
            f"{type(parallelize_plan).__name__}"
        )
    for path, style in parallelize_plan.items():
        if path == "":
            parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
            continue
        found = _matching(module, path)
        if not found:
            warnings.warn(f"parallelize_module: {path!r} names no submodule", stacklevel=2)
        for child in found:
            parallelize_module(child, mesh, style, src_data_rank=src_data_rank)
    return module
