"""ExportedProgram.run_decompositions with a table: the program is run and exported again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._C import Tensor
from rushlight.export.dynamic_shapes import MOST, Dim
from rushlight.fx import Interpreter
from rushlight.nn import Module

__all__ = ["decomposed"]


class _Replacing(Interpreter):
    """Calls a function in place of an operator."""

    def __init__(self, module, table):
        super().__init__(module)
        self.table = table

    def call_function(self, target, args, kwargs):
        return self.table.get(target, target)(*args, **kwargs)


class _Again(Module):
    """The program, operator by operator."""

    def __init__(self, ep, table):
        super().__init__()
        self.table = table
        self.graph_module = [ep.graph_module]  # in a list: it is no part
        self.signature, self.constants = ep.graph_signature, ep.constants
        for (name, is_parameter, _, persistent), tensor in zip(
            ep._code.state, ep._tensors, strict=True
        ):
            *path, last = name.split(".")
            part: Module = self
            for word in path:
                if word not in part._modules:
                    part.add_module(word, Module())
                part = part._modules[word]
            if is_parameter:
                part.register_parameter(last, tensor)
            else:
                part.register_buffer(last, tensor, persistent)

    def forward(self, *tensors: Tensor) -> Any:
        state: dict[str, Tensor] = dict(self.named_parameters())
        state.update(self.named_buffers())
        state.update(self.constants)
        given = [state[s.target] for s in self.signature.input_specs if s.target is not None]
        return _Replacing(self.graph_module[0], self.table).run(*given, *tensors)


def decomposed(ep: Any, table: dict[Any, Callable[..., Any]]) -> Any:
    """The program of which the operators of the table are replaced."""
    from rushlight.export import ExportedProgram, export

    if ep.example_inputs is None:
        raise ValueError("run_decompositions: the program has no example inputs to run it with")
    args, kwargs = ep.example_inputs
    tensors = tuple(ep._inputs.unpack((args, kwargs)))
    roots = getattr(ep, "_places", {})
    dims = {
        name: Dim(name, min=low or None, max=None if high == MOST else high)
        for name, (low, high) in ep._ranges.items()
    }
    shapes = [
        {
            d: dims[name] * factor + offset
            for name, places in roots.items()
            for i, d, factor, offset in places
            if i == k
        }
        for k in range(len(tensors))
    ]
    again = export(_Again(ep, table), tensors, dynamic_shapes=(shapes,))
    made = ExportedProgram(
        again._code, again._tensors, ep._name, ep._inputs, ep._output, ep._ranges, ep._example
    )
    made._places = roots
    return made
