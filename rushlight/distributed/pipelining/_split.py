"""pipeline(): a model cut into stages at named modules, or where it calls pipe_split()."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any

from rushlight import fx
from rushlight._C import Tensor
from rushlight.distributed.pipelining._stage import PipelineStage
from rushlight.nn import Module

__all__ = ["Pipe", "SplitPoint", "build_stage", "pipe_split", "pipeline"]


class SplitPoint(enum.Enum):
    """Where a stage ends: before a module, or behind it."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """In a model's forward: the next stage begins here. Outside of pipeline() it does nothing."""
    if _Tracer.current is not None:
        _Tracer.current.graph.call_function(pipe_split)


class _Tracer(fx.Tracer):
    """Modules at which the model is cut are calls of the graph."""

    current: _Tracer | None = None

    def __init__(self, named: set[str]) -> None:
        super().__init__()
        self._named = named

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        inside = any(name.startswith(module_qualified_name + ".") for name in self._named)
        if inside:
            return False
        named = module_qualified_name in self._named
        return named or super().is_leaf_module(m, module_qualified_name)

    def trace(self, root: Any, concrete_args: Any = None) -> Any:
        _Tracer.current = self
        try:
            return super().trace(root, concrete_args)
        finally:
            _Tracer.current = None


class Pipe(Module):
    """A model that is cut into stages; called as a whole it is the model."""

    def __init__(self, stages: list[Module]) -> None:
        super().__init__()
        for i, stage in enumerate(stages):
            self.add_module(f"stage_{i}", stage)
        self.num_stages = len(stages)

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of a stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(
                f"Pipe.get_stage_module: there are {self.num_stages} stages, got {stage_idx}"
            )
        return getattr(self, f"stage_{stage_idx}")

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """The stage of this rank, on a device."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self, device, group)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        values: Any = args
        for i in range(self.num_stages):
            out = self.get_stage_module(i)(*values, **(kwargs if i == 0 else {}))
            values = out if isinstance(out, tuple) and i < self.num_stages - 1 else (out,)
        return values[0]


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: Any, device: Any, group: Any = None
) -> PipelineStage:
    """A stage of a Pipe, on a device."""
    return PipelineStage(
        stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group
    )


def _numbers(graph: Any, spec: dict[str, SplitPoint]) -> dict[Any, int]:
    """The stage of each node."""
    stage, numbers, met = 0, {}, set()
    for node in graph.nodes:
        if node.op == "call_function" and node.target is pipe_split:
            stage += 1
            continue
        point = spec.get(str(node.target)) if node.op == "call_module" else None
        if point is not None and node.target in met:
            raise ValueError(f"pipeline: the model calls {node.target} twice, and is cut there")
        met.add(node.target)
        if point is SplitPoint.BEGINNING:
            stage += 1
        if node.op not in ("placeholder", "output", "get_attr"):
            numbers[node] = stage
        if point is SplitPoint.END:
            stage += 1
    return numbers


def _stage_graph(root: Any, nodes: list[Any], given: list[Any], results: Any, first: bool) -> Any:
    """A GraphModule of some nodes, whose arguments are given."""
    graph = fx.Graph()
    copies: dict[Any, Any] = {}

    def copied(value: Any) -> Any:
        if value not in copies:  # a parameter or buffer is read where it is used
            copies[value] = graph.node_copy(value)
        return copies[value]

    for value in given:
        if first:  # with the model's defaults
            copied(value)
        else:
            copies[value] = graph.placeholder(value.name)
    for node in nodes:
        copies[node] = graph.node_copy(node, copied)
    graph.output(fx.node.map_arg(results, copied))
    return fx.GraphModule(root, graph)


def _constants(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments that are no tensors: every micro-batch has them as they are here."""
    signature = inspect.signature(module.forward)
    if not args and not kwargs:
        empty = inspect.Parameter.empty
        return {n: p.default for n, p in signature.parameters.items() if p.default is not empty}
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return {n: v for n, v in bound.arguments.items() if not isinstance(v, Tensor)}


def pipeline(
    module: Module, mb_args: tuple[Any, ...] = (), mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[Any], Any] | None = None,
) -> Pipe:  # fmt: skip
    """Cuts a model into stages: at the modules that ``split_spec`` names, or where forward calls
    pipe_split(). The model is traced by fx, so its forward must not depend on values;
    ``mb_args`` and ``mb_kwargs`` are those of a micro-batch, and the stages are tried with them."""
    if split_policy is not None:
        raise NotImplementedError("pipeline: split_policy is not there; use split_spec")
    spec = dict(split_spec or {})
    known = {name for name, _ in module.named_modules()}
    for name, point in spec.items():
        if name not in known:
            raise ValueError(f"pipeline: split_spec names {name!r}, which the model does not have")
        if not isinstance(point, SplitPoint):
            raise TypeError(f"pipeline: split_spec has a SplitPoint per name, got {point!r}")
    graph = _Tracer(set(spec)).trace(module, _constants(module, mb_args, mb_kwargs or {}))
    numbers = _numbers(graph, spec)
    last = max(numbers.values(), default=0)
    (end,) = [node for node in graph.nodes if node.op == "output"]
    stages: list[Module] = []
    flowing = [node for node in graph.nodes if node.op == "placeholder"]
    order = list(graph.nodes)
    for stage in range(last + 1):
        mine = [node for node in order if numbers.get(node) == stage]
        if not mine:
            raise ValueError(f"pipeline: stage {stage} would be empty; cut elsewhere")
        if stage == last:
            stages.append(_stage_graph(module, mine, flowing, end.args[0], stage == 0))
            break
        later = [node for node in order if numbers.get(node, -1) > stage] + [end]
        needed = {value for node in later for value in node.all_input_nodes}
        kept = [v for v in [*flowing, *mine] if v in needed]
        results = kept[0] if len(kept) == 1 else tuple(kept)
        stages.append(_stage_graph(module, mine, flowing, results, stage == 0))
        flowing = kept
    pipe = Pipe(stages)
    if mb_args or mb_kwargs:
        pipe(*mb_args, **(mb_kwargs or {}))
    return pipe
