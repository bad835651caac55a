"""What export makes: a program, its parameters and buffers, and what its inputs may be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from rushlight._C import Tensor
from rushlight.export._graph import forward_of, graph_module_of, mutated_state, program_of
from rushlight.export._inputs import Packing
from rushlight.export._module_calls import ModuleCall
from rushlight.export._module_signatures import (
    KeptCall,
    ModuleCallEntry,
    ModuleCallSignature,
    kept_calls_data,
)
from rushlight.export.dynamic_shapes import MOST
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from rushlight.jit._program import Code
from rushlight.jit._scripted import RecursiveScriptModule
from rushlight.nn import Parameter

if TYPE_CHECKING:
    from rushlight.export._draft_export import DraftExportReport
    from rushlight.fx import Graph, GraphModule

__all__ = ["ExportedProgram", "ValueRanges"]


class ValueRanges(NamedTuple):
    """The range of a size; upper is sys.maxsize where there is no end."""

    lower: int
    upper: int

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == MOST else self.upper}]"


class _ExportedModule(RecursiveScriptModule):
    """The program as a module that is called like the one that was exported."""

    def __init__(self, ep: ExportedProgram) -> None:
        super().__init__(ep._code, ep._tensors, ep._name)
        object.__setattr__(self, "_packings", (ep._inputs, ep._output))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inputs, output = self._packings
        names = inputs.spec.children_specs[1].context or []
        if set(names) == set(kwargs):
            kwargs = {name: kwargs[name] for name in names}
        try:
            tensors = inputs.unpack((args, kwargs))
        except ValueError as error:
            raise ValueError(f"{self.original_name}: {error}") from None
        found = self._run_method("forward", *tensors)
        return output.pack(found if isinstance(found, tuple) else (found,))

    def train(self, mode: bool = True) -> NoReturn:
        """Refused: an exported program is in the mode of its module."""
        raise NotImplementedError(
            "train: an exported program does what its module did in the mode of the export; export "
            "the module again in the other mode"
        )

    def eval(self) -> NoReturn:
        """Refused, as train is."""
        self.train(False)

    def __deepcopy__(self, memo: Any) -> Any:
        import copy

        made = super().__deepcopy__(memo)
        made.__class__ = _ExportedModule
        object.__setattr__(made, "_packings", copy.copy(self._packings))
        return made


class ExportedProgram:
    """A program with its parameters and buffers; made by export.export and export.load.

    `module()` is called like the module that was exported. `graph_module` and `graph_signature`
    show the program; export.save writes it to a file, which C++ programs run.

    Arguments:
        code: the program.
        tensors: its parameters and buffers.
        name: the name of the class of the module that was exported.
        inputs, output: how inputs and output are packed.
        ranges: {name of a size: (least, most)}.
        example: the inputs that it was exported with, (args, kwargs).

    Example:
        >>> program = rl.export.export(nn.Linear(3, 1), (rl.zeros(2, 3),))
        >>> isinstance(program, rl.export.ExportedProgram), sorted(program.state_dict)
        (True, ['bias', 'weight'])
        >>> program.module()(rl.zeros(2, 3)).shape
        rushlight.Size([2, 1])
    """

    def __init__(
        self, code: Code, tensors: list[Tensor], name: str, inputs: Packing, output: Packing,
        ranges: dict[str, tuple[int, int]], example: tuple[tuple[Any, ...], dict[str, Any]] | None,
    ) -> None:  # fmt: skip
        self._code, self._tensors, self._name = code, tensors, name
        self._inputs, self._output, self._ranges = inputs, output, dict(ranges)
        self._example = example
        # {name of a size: (input, dimension, factor, offset) of where it stands}
        self._places: dict[str, Any] = {}
        self._calls: list[ModuleCall] = []  # of submodules, for unflatten
        self._kept_calls: dict[int, KeptCall] = {}  # signatures of some of them
        self._report: DraftExportReport | None = None  # of draft_export
        self._views: dict[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("ExportedProgram: it is not called itself; call what its module() gives")

    def module(self, check_guards: bool = True) -> RecursiveScriptModule:
        """A module that is called like the one that was exported, with the same parameters and
        buffers. It trains; inputs that the program is not for raise an AssertionError, whatever
        check_guards says."""
        return _ExportedModule(self)

    def _program(self) -> dict[str, Any]:
        return self._views.setdefault("program", program_of(self._code))

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the inputs and outputs of the graph are."""
        if "signature" not in self._views:
            self._views["signature"] = self._make_signature()
        return self._views["signature"]

    def _make_signature(self):
        names = self.graph_module._names
        inputs = [
            InputSpec(kind, TensorArgument(name), target, persistent)
            for kind, name, target, persistent in names["state"]
        ]
        tensors = iter(names["inputs"])
        places = set(self._inputs.tensors)
        for i, value in enumerate(self._inputs.fixed):
            arg: Any = ConstantArgument(f"input_{i}", value)
            if i in places:
                arg = TensorArgument(next(tensors))
            inputs.append(InputSpec(InputKind.USER_INPUT, arg))
        found, places = iter(names["outputs"]), set(self._output.tensors)
        outputs = [
            OutputSpec(
                OutputKind.USER_OUTPUT,
                TensorArgument(next(found)) if i in places else ConstantArgument("", value),
            )
            for i, value in enumerate(self._output.fixed)
        ]
        return ExportGraphSignature(
            inputs, outputs, mutated_state(self._program(), [row[0] for row in self._code.state])
        )

    @property
    def graph_module(self) -> GraphModule:
        """The program as an fx GraphModule: parameters, buffers, constants and inputs come in as
        placeholders, the outputs go out as a tuple. It is a view; module() runs the program."""
        if "graph_module" not in self._views:
            self._views["graph_module"] = graph_module_of(self._program(), self._code)
        return self._views["graph_module"]

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The calls of submodules in their order, after one entry for the program itself; those
        that preserve_module_call_signature named have their signatures."""
        found: dict[str, ModuleCallSignature | None] = {
            "": ModuleCallSignature([], [], self._inputs.spec, self._output.spec)
        }
        for k, (path, *_) in enumerate(self._calls):
            kept, name, further = self._kept_calls.get(k), path, 1
            while kept is not None and name in found:
                name, further = f"{path}@{further}", further + 1
            found.setdefault(name, None if kept is None else self._signature_of(kept))
        return [ModuleCallEntry(name, signature) for name, signature in found.items()]

    def _signature_of(self, kept):
        names, kinds = self.graph_module._values, forward_of(self._program())["locals"]
        sides = []
        for packing, places in ((kept.inputs, kept.sources), (kept.outputs, kept.results)):
            arguments: list[Any] = [ConstantArgument("", value) for value in packing.fixed]
            for i, place in zip(packing.tensors, places, strict=True):
                kind = kinds[place.index] if place.kind == "local" else "Tensor"
                make = {"int": SymIntArgument, "float": SymFloatArgument}.get(kind, TensorArgument)
                arguments[i] = make(names.get(tuple(place)) or "")
            sides.append(arguments)
        return ModuleCallSignature(*sides, kept.inputs.spec, kept.outputs.spec)

    @property
    def graph(self) -> Graph:
        """The graph of graph_module."""
        return self.graph_module.graph

    @property
    def code(self) -> str:
        """The program as text, with its checks."""
        return self._code.text("forward")

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers by name."""
        return dict(self.module().state_dict())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter)."""
        for (name, is_parameter, *_), tensor in zip(self._code.state, self._tensors, strict=True):
            if is_parameter:
                yield name, tensor  # type: ignore[misc]

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        for _, tensor in self.named_parameters():
            yield tensor

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """(name, buffer)."""
        for (name, is_parameter, *_), tensor in zip(self._code.state, self._tensors, strict=True):
            if not is_parameter:
                yield name, tensor

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, tensor in self.named_buffers():
            yield tensor

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """{name of a Dim: its range}; sizes without a name are s0, s1 and so on."""
        return {name: ValueRanges(*row) for name, row in self._ranges.items()}

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """(args, kwargs) of the export; files keep them."""
        return self._example

    @property
    def constants(self) -> dict[str, Tensor]:
        """The tensors that the program brings along."""
        return {f"lifted_tensor_{i}": t for i, t in enumerate(self._code.constants)}

    @property
    def tensor_constants(self) -> dict[str, Tensor]:
        """As constants."""
        return self.constants

    @property
    def dialect(self) -> str:
        """'RUSHLIGHT': operators are those of the package's table."""
        return "RUSHLIGHT"

    def validate(self) -> None:
        """Does nothing: programs are checked when they are made."""

    def run_decompositions(
        self,
        decomp_table: dict[Any, Callable[..., Any]] | None = None,
        decompose_custom_triton_ops: bool = False,
    ) -> ExportedProgram:
        """A program in which the operators of the table ({ops.aten.x: function}) are replaced by
        what the functions do. None and an empty table replace nothing: every operator of the
        package runs by itself."""
        if not decomp_table:
            return self._with(self._tensors)
        from rushlight.export._decompose import decomposed

        return decomposed(self, decomp_table)

    def __str__(self) -> str:
        ranges = ", ".join(f"{k}: {v!r}" for k, v in self.range_constraints.items())
        return (f"ExportedProgram:\n{self.code}\nGraph signature:{self.graph_signature}\n"
                f"Range constraints: {{{ranges}}}\n")  # fmt: skip

    __repr__ = __str__

    def __deepcopy__(self, memo: Any) -> ExportedProgram:
        import copy

        return self._with(copy.deepcopy(self._tensors, memo))

    def _with(self, tensors: list[Tensor]) -> ExportedProgram:
        """The same program with these parameters and buffers."""
        made = ExportedProgram(
            self._code, tensors, self._name, self._inputs, self._output, self._ranges,
            self._example,
        )  # fmt: skip
        made._places, made._calls = self._places, self._calls
        made._kept_calls = self._kept_calls
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError("exported programs are not pickled; write them with rushlight.export.save")


def about(ep: ExportedProgram) -> str:
    """What a file keeps beside the program."""
    from rushlight.export._packings import packing_data

    return json.dumps(
        {
            "version": 1,
            "name": ep._name,
            "inputs": packing_data(ep._inputs),
            "output": packing_data(ep._output),
            "ranges": {k: list(v) for k, v in ep._ranges.items()},
            "places": ep._places,
            "calls": ep._calls,
            "signatures": kept_calls_data(ep._kept_calls),
            "example": ep._example is not None,
        }
    )
