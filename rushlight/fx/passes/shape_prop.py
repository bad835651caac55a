"""Shapes and dtypes of all values of a graph, learnt by running it."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight._C import memory_format as _memory_format
from rushlight._names.missing import names_missing_from
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node, map_aggregate
from rushlight.types import _dtype

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known about a tensor without its values."""

    shape: Size
    dtype: _dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: _memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """The metadata of a tensor."""
    found = None
    if include_contiguity:
        formats = [_C.contiguous_format]
        if result.dim() == 4:
            formats.append(_C.channels_last)
        if result.dim() == 5:
            formats.append(_C.channels_last_3d)
        found = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and writes what it learns into the Nodes: meta["tensor_meta"] has a
    TensorMetadata (or containers of them), meta["type"] the class of the value."""

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError(
                "ShapeProp: there are no fake tensors; give propagate() tensors with "
                'device="meta", which have no memory'
            )

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        found = False

        def describe(value: Any) -> Any:
            nonlocal found
            if isinstance(value, Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, describe)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph with these inputs, and returns what it returns."""
        return self.run(*args)


__getattr__ = names_missing_from(__name__)
