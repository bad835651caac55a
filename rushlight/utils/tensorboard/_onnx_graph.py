"""An ONNX file as a graph: its operators and what they pass to each other."""

import os

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.versions_pb2 import VersionDef


def onnx_graph(file):
    """The graph of a file, or of a model that is loaded already."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "add_onnx_graph: the onnx package is not installed; install it with `pip install onnx`"
        ) from error

    model = onnx.load(os.fspath(file)) if isinstance(file, str | os.PathLike) else file
    graph = model.graph
    made_by = {value.name: value.name for value in [*graph.input, *graph.initializer]}
    nodes = [NodeDef(name=name, op="Parameter" if name in _names(graph.initializer) else "Input")
             for name in made_by]  # fmt: skip
    used = set(made_by)
    for node in graph.node:
        name = node.name or f"{node.op_type}_{len(nodes)}"
        while name in used:
            name += "_"
        used.add(name)
        inputs = [made_by[i] for i in node.input if i in made_by]
        attributes = "\n".join(onnx.helper.printable_attribute(a) for a in node.attribute)
        about = {"attributes": AttrValue(s=attributes.encode())} if attributes else {}
        nodes.append(NodeDef(name=name, op=node.op_type, input=inputs, attr=about))
        made_by.update(dict.fromkeys(node.output, name))
    for value in graph.output:
        sources = [made_by[value.name]] if value.name in made_by else []
        nodes.append(NodeDef(name=f"output/{value.name}", op="Output", input=sources))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _names(values):
    return {value.name for value in values}
