"""A model as a graph: its modules in the order in which they were called."""

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.versions_pb2 import VersionDef

from rushlight import _C
from rushlight.autograd import no_grad
from rushlight.utils._pytree import tree_leaves


def model_graph(model, inputs):
    """One node a module without children, tied to the modules whose results it was given."""
    nodes, made_by, handles = [], {}, []
    if inputs is None:
        for name, module in model.named_modules():
            if name and not list(module.children()):
                nodes.append(_node(name, module, []))
        return _graph(nodes)

    def after(name):
        def hook(module, args, output):
            sources = sorted({made_by.get(id(t), "input") for t in _tensors(args)})
            nodes.append(_node(name, module, sources, output))
            for t in _tensors(output):
                made_by[id(t)] = nodes[-1].name
                keep.append(t)  # so that no other tensor gets its id

        return hook

    keep = []
    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_hook(after(name or type(module).__name__)))
    args = inputs if isinstance(inputs, tuple | list) else (inputs,)
    nodes.append(NodeDef(name="input", op="IO Node"))
    training = model.training
    try:
        with no_grad():
            result = model.eval()(*args)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    sources = sorted({made_by[id(t)] for t in _tensors(result) if id(t) in made_by})
    nodes.append(NodeDef(name="output", op="IO Node", input=sources))
    return _graph(nodes)


def _tensors(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, _C.Tensor)]


def _node(name, module, sources, output=None):
    about = module.extra_repr()
    attributes = {"attr": AttrValue(s=about.encode())} if about else {}
    shapes = [str(list(t.shape)) for t in _tensors(output)] if output is not None else []
    if shapes:
        attributes["shape"] = AttrValue(s=", ".join(shapes).encode())
    path = name.replace(".", "/")
    return NodeDef(name=path, op=type(module).__name__, input=sources, attr=attributes)


def _graph(nodes):
    seen, kept = {}, []
    for node in nodes:  # a module that is called twice is two nodes
        seen[node.name] = seen.get(node.name, 0) + 1
        if seen[node.name] > 1:
            node.name = f"{node.name}_{seen[node.name] - 1}"
        kept.append(node)
    return GraphDef(node=kept, versions=VersionDef(producer=22))
