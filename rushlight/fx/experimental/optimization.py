"""Graphs made quicker for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from rushlight import nn
from rushlight._names.missing import names_missing_from
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Transformer
from rushlight.fx.node import Argument, Node, Target
from rushlight.nn import Module
from rushlight.nn.utils.fusion import fuse_conv_bn_eval

__all__ = [
    "extract_subgraph", "fuse", "matches_module_pattern", "remove_dropout", "replace_node_module",
]  # fmt: skip

_PATTERNS = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))


def _parent_name(target: str) -> tuple[str, str]:
    """The names of the holder and of the attribute."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a Node and its first argument call modules of these two classes."""
    if not node.args:
        return False
    for expected, current in zip(pattern, (node.args[0], node), strict=True):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if type(modules.get(current.target)) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """The Node calls another module under the same name."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """The model, which must be in eval mode, with batch norms inside the convolutions before them.

    inplace: the model's own modules are changed. no_trace: the model is a GraphModule already.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    if no_trace and traced is not model:
        raise AssertionError(f"fuse: no_trace needs a GraphModule, got {type(model).__name__}")
    modules: dict[str, Any] = dict(traced.named_modules())
    for pattern in _PATTERNS:
        for node in traced.graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue  # what follows the convolution besides sees it as it is
            conv, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def remove_dropout(model: Module) -> GraphModule:
    """The model without its nn.Dropout."""

    class WithoutDropout(Transformer):
        def call_module(
            self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
        ) -> Any:
            if isinstance(self.submodules[str(target)], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    traced = symbolic_trace(model)
    return WithoutDropout(traced).transform()


def extract_subgraph(
    orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """A module of some Nodes of a graph, with these inputs and outputs."""
    graph = Graph()
    env: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output([env[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


__getattr__ = names_missing_from(__name__)
