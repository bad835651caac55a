"""What the inputs and outputs of an exported program are."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

__all__ = [
    "ArgumentSpec",
    "ConstantArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name that it has in the graph."""

    name: str


@dataclasses.dataclass
class ConstantArgument:
    """A value that is fixed."""

    name: str
    value: Any


@dataclasses.dataclass
class SymIntArgument:
    """A whole number that follows sizes, by the name that it has in the graph."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A number that follows sizes, by the name that it has in the graph."""

    name: str


ArgumentSpec = TensorArgument | SymIntArgument | SymFloatArgument | ConstantArgument


class InputKind(enum.Enum):
    """Where an input of the graph comes from."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """Where an output of the graph goes."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclasses.dataclass
class InputSpec:
    """One input; target: the parameter, buffer or constant that it is."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = f" target='{self.target}'" if self.target is not None else ""
        persistent = f" persistent={self.persistent}" if self.persistent is not None else ""
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclasses.dataclass
class OutputSpec:
    """One output."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None

    def __str__(self) -> str:
        target = f" target='{self.target}'" if self.target is not None else ""
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """Gradients of a program that computes its own; no exported program here has one.

    Arguments:
        gradients_to_parameters: {output: parameter whose gradient it is}.
        gradients_to_user_inputs: {output: input whose gradient it is}.
        loss_output: the output that is the loss.

    Example:
        >>> rl.export.ExportBackwardSignature({"grad": "weight"}, {}, "loss").loss_output
        'loss'
    """

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs, in order. Buffers are written in place when the program runs;
    buffers_to_mutate names those that are.

    Arguments:
        input_specs: an InputSpec for each input of the graph.
        output_specs: an OutputSpec for each output.
        mutated_buffers: names of the buffers that the program writes to.

    Example:
        >>> program = rl.export.export(nn.Linear(3, 1), (rl.zeros(2, 3),))
        >>> signature = program.graph_signature
        >>> signature.parameters, signature.user_inputs
        (('weight', 'bias'), ('input_1',))
        >>> empty = rl.export.ExportGraphSignature([], [], mutated_buffers=("mean",))
        >>> empty.mutated_buffers
        ('mean',)
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
    mutated_buffers: tuple[str, ...] = ()

    def _targets(self, kind, persistent=None):
        return tuple(
            spec.target
            for spec in self.input_specs
            if spec.kind is kind and (persistent is None or spec.persistent is persistent)
        )

    def _by_name(self, kind):
        return {spec.arg.name: spec.target for spec in self.input_specs if spec.kind is kind}

    @property
    def parameters(self) -> tuple[Any, ...]:
        """Names of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[Any, ...]:
        """Names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[Any, ...]:
        """Names of the buffers that state dicts leave out."""
        return self._targets(InputKind.BUFFER, persistent=False)

    @property
    def lifted_tensor_constants(self) -> tuple[Any, ...]:
        """Names of the constants."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Names of the inputs of a call; of those that are fixed, the values."""
        return tuple(
            spec.arg.value if isinstance(spec.arg, ConstantArgument) else spec.arg.name
            for spec in self.input_specs
            if spec.kind is InputKind.USER_INPUT
        )

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Names of the outputs; of those that are fixed, the values."""
        return tuple(
            spec.arg.value if isinstance(spec.arg, ConstantArgument) else spec.arg.name
            for spec in self.output_specs
            if spec.kind is OutputKind.USER_OUTPUT
        )

    @property
    def inputs_to_parameters(self) -> dict[str, Any]:
        """{name in the graph: parameter}."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, Any]:
        """{name in the graph: buffer}."""
        return self._by_name(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, Any]:
        """{name in the graph: constant}."""
        return self._by_name(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """{name in the graph: buffer} of the buffers that a run changes."""
        return {
            name: target for name, target in self.inputs_to_buffers.items()
            if target in self.mutated_buffers
        }  # fmt: skip

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """None: gradients come from autograd."""
        return None

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
