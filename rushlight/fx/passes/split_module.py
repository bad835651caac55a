"""A graph cut into submodules."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule, _get_attr
from rushlight.fx.node import Node, map_arg
from rushlight.nn import Module

__all__ = ["Partition", "split_module"]

_OUTSIDE = ("placeholder", "get_attr", "output")


class Partition:
    """The Nodes of one submodule, what they take from others and what others take from them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.dependencies: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.nodes},\n inputs: {list(self.inputs)},\n "
            f"outputs: {list(self.outputs)},\n partitions depended on: {list(self.dependencies)}"
        )


def split_module(
    m: GraphModule, root_m: Module, split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None, keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False, keep_original_input_name: bool = True, *,
    partition_affix: str | None = None, tuple_return: bool = False,
) -> GraphModule:  # fmt: skip
    """A module with one submodule per partition.

    split_callback: the number of a Node's partition. qualname_map: takes the old names of what is
    called in the submodules. keep_original_order: partitions run in the order of their first
    Nodes, not only in an order that their inputs allow.
    """
    partitions: dict[str, Partition] = {}
    home: dict[Node, Partition] = {}
    for node in m.graph.nodes:
        if node.op in _OUTSIDE:
            continue
        name = str(split_callback(node))
        found = partitions.get(name)
        if found is None:
            found = partitions[name] = Partition(name)
            if partition_affix is not None:
                found.submod_name = f"submod_{partition_affix}_{name}"
        found.nodes.append(node)
        home[node] = found
    for node in m.graph.nodes:
        _note_uses(node, home)
    names = {} if qualname_map is None else qualname_map
    for partition in partitions.values():
        _fill(partition, root_m, names, bool(keep_original_node_name), tuple_return)
    order = list(partitions.values())
    if not keep_original_order:
        order = _sorted(partitions)
    return _stitched(m, order, home, tuple_return)


def _note_uses(node: Node, home: dict[Node, Partition]) -> None:
    user = home.get(node)
    for used in node.all_input_nodes:
        maker = home.get(used)
        if maker is user:
            continue
        if user is not None:
            user.inputs.setdefault(used)
        if maker is not None:
            maker.outputs.setdefault(used)
            if user is not None:
                user.dependencies.setdefault(maker.name)


def _sorted(partitions: dict[str, Partition]) -> list[Partition]:
    """Every partition after those that it takes something from."""
    order: list[Partition] = []
    waiting = dict(partitions)
    while waiting:
        ready = [p for p in waiting.values() if not any(d in waiting for d in p.dependencies)]
        if not ready:
            raise RuntimeError("the parts wait for each other")
        order.append(ready[0])
        del waiting[ready[0].name]
    return order


def _fill(
    partition: Partition, root: Module, qualname_map: dict[str, str], keep_names: bool,
    tuple_return: bool,
) -> None:  # fmt: skip
    """The partition's graph."""
    graph, env = partition.graph, partition.environment
    for node in partition.inputs:
        env[node] = graph.placeholder(node.name, type_expr=node.type)
        env[node].meta = dict(node.meta)
    for node in partition.nodes:
        target = node.target
        if node.op == "call_module":
            target = target.replace(".", "_")
            partition.targets[target] = _get_attr(root, node.target)
            qualname_map[f"{partition.submod_name}.{target}"] = node.target
        env[node] = graph.create_node(
            node.op, target, map_arg(node.args, lambda n: env[n]),
            map_arg(node.kwargs, lambda n: env[n]), node.name if keep_names else None, node.type,
        )  # fmt: skip
        env[node].meta = dict(node.meta)
    returned = tuple(env[node] for node in partition.outputs)
    graph.output(returned if len(returned) != 1 or tuple_return else returned[0])


def _stitched(
    m: GraphModule, order: list[Partition], home: dict[Node, Partition], tuple_return: bool
) -> GraphModule:
    """The module that calls the submodules."""
    graph = Graph()
    graph.set_codegen(m.graph._codegen)
    env: dict[Node, Node] = {}
    attributes: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            env[node] = graph.node_copy(node, lambda n: env[n])
            if node.op == "get_attr":
                attributes[node.target] = _get_attr(m, node.target)
    for partition in order:
        attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        call = graph.call_module(
            partition.submod_name, tuple(env[node] for node in partition.inputs)
        )
        outputs = list(partition.outputs)
        if len(outputs) == 1 and not tuple_return:
            env[outputs[0]] = call
            continue
        for i, node in enumerate(outputs):
            env[node] = graph.call_function(operator.getitem, (call, i))
    for node in m.graph.nodes:
        if node.op == "output":
            graph.output(map_arg(node.args[0], lambda n: env[n]), node.type)
    return GraphModule(attributes, graph)


__getattr__ = names_missing_from(__name__)
