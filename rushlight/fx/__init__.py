"""Programs as graphs of calls, in Python: traced symbolically, looked at, changed, run.

symbolic_trace makes a GraphModule of a module or function; its graph can be changed and its code
written again. docs/fx.md is the guide."""

from __future__ import annotations

from rushlight._names.missing import names_missing_from
from rushlight.fx import graph, node, proxy
from rushlight.fx import immutable_collections as immutable_collections
from rushlight.fx import traceback as traceback
from rushlight.fx._symbolic_trace import PH as PH
from rushlight.fx._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from rushlight.fx._symbolic_trace import Tracer, symbolic_trace, wrap
from rushlight.fx.graph import CodeGen as CodeGen
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter, Transformer
from rushlight.fx.node import Node, has_side_effect, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.fx.subgraph_rewriter import replace_pattern

# For typing.get_type_hints: these are defined after the modules whose annotations name them.
for _module in (node, proxy, graph):
    vars(_module).update(Graph=Graph, GraphModule=GraphModule, Tracer=Tracer)

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer",
    "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip

__getattr__ = names_missing_from(__name__)
