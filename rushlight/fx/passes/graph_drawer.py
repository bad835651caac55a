"""Graphs as pictures, by the package pydot."""

from __future__ import annotations

import importlib
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2",
    "get_attr": "LightGrey", "output": "PowderBlue", "call_function": "Turquoise",
    "call_method": "Khaki",
}  # fmt: skip


class FxGraphDrawer:
    """Draws the graph of a module and of its GraphModules. It needs pydot, which is no part of the
    library: ``pip install pydot``."""

    def __init__(
        self, graph_module: GraphModule, name: str, ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False, dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:  # fmt: skip
        try:
            pydot = importlib.import_module("pydot")
        except ImportError:
            raise RuntimeError(
                "FxGraphDrawer: needs the package pydot, which is not installed"
            ) from None
        self._pydot: Any = pydot
        self._name, self._ignore_getattr = name, ignore_getattr
        self._shape = dot_graph_shape or "record"
        self._graphs: dict[str, Any] = {name: self._draw(graph_module, name)}
        for node in graph_module.graph.nodes:
            if node.op != "call_module":
                continue
            child = graph_module.get_submodule(node.target)
            if isinstance(child, GraphModule):
                self._graphs[f"{name}_{node.target}"] = self._draw(child, f"{name}_{node.target}")

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The picture of the module, or of one of its parts."""
        return self._graphs[self._name if submod_name is None else submod_name]

    def get_main_dot_graph(self) -> Any:
        """The picture of the module."""
        return self._graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The picture of a part."""
        return self._graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """{name: picture}"""
        return self._graphs

    def _draw(self, module: GraphModule, name: str) -> Any:
        picture = self._pydot.Dot(name, rankdir="TB")
        nodes = [n for n in module.graph.nodes if not (self._ignore_getattr and n.op == "get_attr")]
        for node in nodes:
            picture.add_node(
                self._pydot.Node(
                    node.name, label=self._label(node), shape=self._shape,
                    style='"filled,rounded"', fillcolor=_COLORS[node.op], fontcolor="#000000",
                )
            )  # fmt: skip
        for node in nodes:
            for user in node.users:
                picture.add_edge(self._pydot.Edge(node.name, user.name))
        return picture

    def _label(self, node: Node) -> str:
        lines = [f"name=%{node.name}", f"op_code={node.op}"]
        lines.append(f"target={node._pretty_print_target(node.target)}")
        meta: Any = node.meta.get("tensor_meta")
        if hasattr(meta, "dtype"):
            lines.append(f"dtype={meta.dtype}")
            lines.append(f"shape={tuple(meta.shape)}")
        for sign in "{}|<>":
            lines = [line.replace(sign, f"\\{sign}") for line in lines]
        return '"{' + "|".join(lines) + '}"'


__getattr__ = names_missing_from(__name__)
