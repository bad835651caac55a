"""A model as a graph: what its modules called, with the modules as boxes around it."""

from __future__ import annotations

import contextlib

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from rushlight import _C
from rushlight.autograd import no_grad
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._pytree import tree_leaves

# Questions about a tensor, which are no part of what is computed.
_QUESTIONS = frozenset(("__get__", "dim", "size", "numel", "stride", "__len__", "__bool__", "item"))


def model_graph(model, inputs):
    """The graph of a call of the model; its modules alone without inputs."""
    if inputs is None:
        nodes = [
            NodeDef(name=name.replace(".", "/"), op=type(module).__name__, attr=_about(module))
            for name, module in model.named_modules()
            if name and not list(module.children())
        ]
        return GraphDef(node=nodes, versions=VersionDef(producer=22))
    args = inputs if isinstance(inputs, tuple | list) else (inputs,)
    graph = _Graph(model)
    for tensor in _tensors(args):
        graph.name(tensor, graph.add("input/input", "IO Node", [], [tensor]))
    with graph.watching():
        result = model(*args)
    for tensor in _tensors(result):
        graph.add("output/output", "IO Node", [graph.source(tensor)], [tensor])
    return GraphDef(node=graph.nodes, versions=VersionDef(producer=22))


def _tensors(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, _C.Tensor)]


def _about(module):
    text = module.extra_repr()
    return {"attr": AttrValue(s=text.encode())} if text else {}


class _Calls(TorchFunctionMode):
    """Notes every call that makes a tensor."""

    def __init__(self, graph):
        super().__init__()
        self._graph = graph

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "call")
        made = _tensors(args[:1] if name == "__setitem__" else out)
        if made and name not in _QUESTIONS:
            self._graph.call(name.strip("_"), (args, kwargs or {}), made)
        return out


class _Graph:
    """Nodes, and which of them made a tensor. Names are those of modules, as PyTorch writes them:
    Sequential/Linear[0]/linear."""

    def __init__(self, model):
        self.nodes = []
        self._model = model
        self._used = {}  # how often a name was taken
        self._made_by = {}  # by the identity of a tensor: its node, and the tensor, kept alive
        self._path = []  # boxes around what runs
        self._stack = []  # the same of the modules around it
        self._places = {id(m): name for name, m in model.named_modules()}
        self._parameters = {
            id(t): (name, t)
            for name, t in [*model.named_parameters(), *model.named_buffers()]
        }  # fmt: skip

    def add(self, name, op, sources, made, attributes=None):
        """A node; the name that it got."""
        count = self._used[name] = self._used.get(name, -1) + 1
        if count or op == "IO Node":
            name = f"{name}_{count}" if op != "IO Node" else f"{name}.{count + 1}"
        attributes = dict(attributes or {})
        if made:
            shapes = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in t.shape])
                      for t in made]  # fmt: skip
            attributes["_output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=shapes))
        self.nodes.append(NodeDef(name=name, op=op, input=sources, attr=attributes))
        return name

    def name(self, tensor, node):
        """From now on the tensor is what this node made."""
        self._made_by[id(tensor)] = node, tensor

    def source(self, tensor):
        """The node that made a tensor. Parameters, and what the model made before, get one."""
        if id(tensor) not in self._made_by:
            if id(tensor) in self._parameters:
                name, op = self._parameters[id(tensor)][0], "Parameter"
                path = self._scope_of(name.rpartition(".")[0])
                name = "/".join([*path, name.rpartition(".")[2]])
            else:
                name, op = "/".join([*self._path, "constant"]), "Const"
            self.name(tensor, self.add(name, op, [], [tensor]))
        return self._made_by[id(tensor)][0]

    def call(self, name, given, made):
        """A call in the module that runs."""
        sources = list(dict.fromkeys(self.source(t) for t in _tensors(given)))
        about = ", ".join(
            f"{v}" for v in tree_leaves(given) if isinstance(v, bool | int | float | str)
        )
        attributes = {"attr": AttrValue(s=about.encode())} if about else {}
        node = self.add("/".join([*self._path, name]), f"aten::{name}", sources, made, attributes)
        for tensor in made:
            self.name(tensor, node)

    def watching(self):
        """A context in which calls of the model are noted; all modules are left in their modes."""
        stack = contextlib.ExitStack()
        for module in self._model.modules():
            handles = (module.register_forward_pre_hook(self._enter),
                       module.register_forward_hook(self._leave, always_call=True))  # fmt: skip
            for handle in handles:
                stack.callback(handle.remove)
            stack.callback(setattr, module, "training", module.training)
        self._model.eval()
        stack.enter_context(no_grad())
        stack.enter_context(_Calls(self))
        return stack

    def _scope_of(self, path):
        """Boxes around a module, by its path from the model."""
        found, at = [type(self._model).__name__], self._model
        for name in path.split(".") if path else ():
            at = at._modules[name]
            found.append(f"{type(at).__name__}[{name}]")
        return found

    def _enter(self, module, args):
        self._path = self._scope_of(self._places[id(module)])
        self._stack.append(self._path)

    def _leave(self, module, args, output):
        self._stack.pop()
        self._path = self._stack[-1] if self._stack else [type(self._model).__name__]
