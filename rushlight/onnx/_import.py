"""Modules made of ONNX files."""

from __future__ import annotations

import operator
import os
import re
from typing import Any

import rushlight
from rushlight import fx
from rushlight._C import Tensor
from rushlight.nn import Module, Parameter
from rushlight.onnx import _layer_operators
from rushlight.onnx._operators import DTYPES, OPERATORS

_MORE = _layer_operators  # it fills OPERATORS


def load(f: str | os.PathLike[str] | Any, *, requires_grad: bool = True) -> fx.GraphModule:
    """A module that does what an ONNX file says; its graph can be looked at and changed with fx.

    Weights of floating point become parameters, other initializers buffers.

    Arguments:
        f (path, open file or onnx.ModelProto): the model.
        requires_grad (bool): whether the parameters need gradients.

    Returns:
        fx.GraphModule: with a `forward` of the model's inputs, in their order.

    Raises:
        ImportError: where the package onnx is not installed.
        ValueError: for a file that is no valid model.
        NotImplementedError: for operators and dtypes that are not known; it names them.

    Differs from PyTorch: it has no such function.

    Example:
        >>> program = rl.onnx.export(nn.Linear(3, 2), rl.zeros(1, 3))
        >>> model = rl.onnx.load(program.model_proto, requires_grad=False)
        >>> model(rl.zeros(1, 3)).shape, [p.requires_grad for p in model.parameters()]
        (rushlight.Size([1, 2]), [False, False])
    """
    try:
        import onnx
    except ImportError:
        raise ImportError(
            "onnx.load: reading ONNX needs the package onnx; pip install onnx"
        ) from None
    from google.protobuf.message import DecodeError

    try:
        if isinstance(f, onnx.ModelProto):
            proto = f
        elif hasattr(f, "read"):
            proto = onnx.load_from_string(f.read())
        else:
            proto = onnx.load_model(os.fspath(f))  # with the weights beside it
    except DecodeError as error:
        raise ValueError(f"onnx.load: the file is not valid: {error}") from None
    return _Import(proto, requires_grad).run()


class _Import:
    def __init__(self, proto: Any, requires_grad: bool) -> None:
        self.proto, self.requires_grad = proto, requires_grad
        self.root = Module()
        self.graph = fx.Graph()
        self.nodes: dict[str, Any] = {"": None}

    def run(self) -> fx.GraphModule:
        self._check()
        graph = self.proto.graph
        used = {name for node in graph.node for name in node.input}
        unknown = sorted({n.op_type for n in graph.node} - set(OPERATORS) - {"Constant"})
        if unknown:
            raise NotImplementedError(f"onnx.load: operators that are not known: {unknown}")
        weights = {proto.name: proto for proto in graph.initializer}
        for value in graph.input:
            if value.name not in weights:
                self.nodes[value.name] = self.graph.placeholder(_identifier(value.name))
        for name, proto in weights.items():
            if name in used:
                self.nodes[name] = self._attribute(name, self._tensor(proto), True)
        for node in graph.node:
            self._node(node)
        outputs = tuple(self.nodes[value.name] for value in graph.output)
        self.graph.output(outputs[0] if len(outputs) == 1 else outputs)
        return fx.GraphModule(self.root, self.graph, "OnnxModule")

    def _check(self) -> None:
        """Raises for what is no valid file, and for what is too old or of others."""
        import onnx

        if self.proto.ByteSize() < 2**30:
            try:
                onnx.checker.check_model(self.proto)
            except onnx.checker.ValidationError as error:
                raise ValueError(f"onnx.load: the file is not valid: {error}") from None
        for row in self.proto.opset_import:
            if row.domain not in ("", "ai.onnx"):
                raise NotImplementedError(f"onnx.load: operators of {row.domain!r} are not known")
            if row.version < 13:
                raise NotImplementedError(
                    f"onnx.load: opset {row.version} is older than 13; "
                    "onnx.version_converter.convert_version brings a model to a newer one"
                )

    def _tensor(self, proto: Any) -> Tensor:
        from onnx import numpy_helper

        if proto.data_type not in DTYPES:
            raise NotImplementedError(f"onnx.load: the dtype {proto.data_type} of {proto.name!r}")
        return rushlight.from_numpy(numpy_helper.to_array(proto).copy())

    def _attribute(self, name: str, tensor: Tensor, trains: bool) -> Any:
        *path, last = [_identifier(part) if part else "_" for part in name.split(".")]
        module = self.root
        for part in path:
            if part not in module._modules:
                module.add_module(part, Module())
            module = module._modules[part]
        if tensor.is_floating_point() and trains and tensor.dim() > 0:
            setattr(module, last, Parameter(tensor, requires_grad=self.requires_grad))
        else:
            module.register_buffer(last, tensor)
        return self.graph.get_attr(".".join([*path, last]))

    def _node(self, node: Any) -> None:
        attributes = {a.name: self._value(a) for a in node.attribute}
        if node.op_type == "Constant":
            (value,) = attributes.values()
            tensor = value if isinstance(value, Tensor) else rushlight.tensor(value)
            self.nodes[node.output[0]] = self._attribute(
                f"constant_{len(self.nodes)}", tensor, False
            )
            return
        for name, value in list(attributes.items()):
            if isinstance(value, Tensor):
                place = f"{node.op_type.lower()}_{name}_{len(self.nodes)}"
                attributes[name] = self._attribute(place, value, False)
        args = tuple(self.nodes[name] for name in node.input)
        call = self.graph.call_function(OPERATORS[node.op_type], args, attributes)
        outputs = list(node.output)
        if len(outputs) == 1 and node.op_type not in _SEVERAL:
            self.nodes[outputs[0]] = call
            return
        for i, name in enumerate(outputs):
            if name:
                self.nodes[name] = self.graph.call_function(operator.getitem, (call, i))

    def _value(self, attribute: Any) -> Any:
        from onnx import helper

        value = helper.get_attribute_value(attribute)
        if hasattr(value, "data_type"):
            return self._tensor(value)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
            return [item.decode() for item in value]
        return list(value) if not isinstance(value, (int, float, str)) else value


_SEVERAL = ("Split", "TopK", "LSTM", "GRU", "RNN")


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
