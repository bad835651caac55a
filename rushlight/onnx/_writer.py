"""An ONNX graph that is written Node by Node, and what translations of operators ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor
from rushlight.onnx._read import ProgramData, places_of, read_by

# Numbers of ONNX's TensorProto.DataType.
ONNX_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15,
    "bfloat16": 16,
}  # fmt: skip

# {name of an operator: the function that writes it}; filled by the files with translations.
TRANSLATIONS: dict[str, Callable[[Call], Any]] = {}


class UnsupportedError(Exception):
    """An operator, or a form of it, that cannot be written; export adds the line."""


def translates(*names: str) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """A decorator for the function that writes these operators. It returns the names of the
    results: one, or a list."""

    def decorate(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        for name in names:
            TRANSLATIONS[name] = function
        return function

    return decorate


def onnx_type(dtype: Any) -> int:
    name = str(dtype).rpartition(".")[2]
    if name not in ONNX_TYPES:
        raise UnsupportedError(f"ONNX has no dtype {name}")
    return ONNX_TYPES[name]


def dtype_named(name: str) -> Any:
    return getattr(_C, name.rpartition(".")[2])


class Writer:
    """Nodes and initializers so far, and the name of each value."""

    def __init__(self, data: ProgramData, opset: int) -> None:
        import onnx

        self.helper: Any = onnx.helper
        self.numpy_helper: Any = onnx.numpy_helper
        self.data, self.opset = data, opset
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.names: dict[int, str] = {}  # {value: its name now}
        self.tensors: dict[int, Tensor] = {}  # {value: what it was with the example}
        self.shapes: dict[int, list[int | None]] = {}  # None: a dim that changes with the inputs
        self.dynamic: set[int] = set()  # which of the program's sizes change
        self._constants: dict[Any, str] = {}
        self._count = 0
        self._size_names: dict[int, str] = {}

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"

    def emit(self, kind: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a Node; returns the name of its output, or the list of names."""
        names = [self.fresh(kind) for _ in range(outputs)]
        given = [name or "" for name in inputs]
        while given and not given[-1]:
            given.pop()
        kept = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(self.helper.make_node(kind, given, names, names[0], **kept))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant: a number, a list of ints, or a tensor."""
        if not isinstance(value, Tensor):
            key = (repr(value), str(dtype))
            if key not in self._constants:
                kind = dtype if dtype is not None else _C.int64
                self._constants[key] = self._keep(_C.tensor(value, dtype=kind), "constant")
            return self._constants[key]
        return self._keep(value, "constant")

    def _keep(self, tensor: Tensor, hint: str) -> str:
        name = self.fresh(hint)
        self.initializers[name] = self.proto(tensor, name)
        return name

    def proto(self, tensor: Tensor, name: str) -> Any:
        """A tensor as ONNX has it."""
        tensor = tensor.detach().cpu().contiguous()
        shape, kind = list(tensor.shape), onnx_type(tensor.dtype)
        if tensor.dtype == _C.bfloat16:
            raw = tensor.view(_C.int16).numpy().tobytes()
        else:
            raw = tensor.numpy().tobytes()
        return self.helper.make_tensor(name, kind, shape, raw, raw=True)

    # ---- sizes

    def size(self, which: int) -> str:
        """A size of the inputs that the program follows, as a tensor of one int."""
        if which not in self._size_names:
            value, dim = self.data.sizes[which]
            self._size_names[which] = self.emit("Shape", self.names[value], start=dim, end=dim + 1)
        return self._size_names[which]

    def number(self, row: Any) -> int | str:
        """A number of the program: an int, or the name of a tensor of one int."""
        if not isinstance(row, list):
            return row
        values = [self.tensors[v].shape[d] for v, d in self.data.sizes]
        factors = [values[0] if values else 1, values[1] if len(values) > 1 else 1]
        both = factors[0] * factors[1]
        used = [i for i in (0, 1) if (row[1 + i] or row[3]) and i in self.dynamic]
        if not used:
            return row[0] + row[1] * factors[0] + row[2] * factors[1] + row[3] * both
        first = self.size(0) if 0 in self.dynamic else self.constant([factors[0]])
        second: str | None = None
        if len(self.data.sizes) > 1:
            second = self.size(1) if 1 in self.dynamic else self.constant([factors[1]])
        total = self.constant([row[0]])
        for factor, name in ((row[1], first), (row[2], second)):
            if factor and name is not None:
                total = self.emit("Add", total, self.emit("Mul", name, self.constant([factor])))
        if row[3]:
            product = self.emit("Mul", first, second)
            total = self.emit("Add", total, self.emit("Mul", product, self.constant([row[3]])))
        return total

    def int_tensor(self, numbers: Sequence[int | str]) -> str:
        """Numbers as one tensor of ints."""
        if all(isinstance(n, int) for n in numbers):
            return self.constant(list(numbers))
        parts = [n if isinstance(n, str) else self.constant([n]) for n in numbers]
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)


class Call:
    """One instruction, as a translation sees it."""

    def __init__(self, writer: Writer, instruction: dict[str, Any]) -> None:
        self.w = writer
        self.op = instruction["op"]
        self.args: dict[str, Any] = instruction["args"]
        self.results = instruction["results"]
        self.emit, self.constant = writer.emit, writer.constant

    def refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(why)

    def has(self, name: str) -> bool:
        """Whether an argument was given, and is not None."""
        return self.args.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """A plain argument: text, bool, float, or an int that follows no size."""
        found = self.args.get(name)
        if isinstance(found, dict) and "float" in found:
            return float(found["float"])
        if isinstance(found, dict) and "sizes" in found:
            numbers = [self.w.number(row) for row in found["sizes"]]
            if any(isinstance(n, str) for n in numbers):
                self.refuse(f"its argument '{name}' follows a size that is dynamic")
            return numbers[0]
        return default if found is None else found

    def numbers(self, name: str) -> list[Any]:
        """A list of ints, or one: names of tensors where they follow dynamic sizes."""
        found = self.args.get(name)
        if isinstance(found, dict) and "sizes" in found:
            return [self.w.number(row) for row in found["sizes"]]
        if found is None:
            return []
        return list(found) if isinstance(found, list) else [found]

    def ints(self, name: str) -> list[int]:
        """A list of ints that must be known."""
        found = self.numbers(name)
        if any(isinstance(n, str) for n in found):
            self.refuse(f"its argument '{name}' follows a size that is dynamic")
        return found

    # ---- tensors

    def example(self, arg: Any) -> Tensor:
        """What a tensor was in the example's run."""
        if isinstance(arg, str):
            arg = self.args[arg]
        if "value" in arg:
            return self.w.tensors[arg["value"]]
        if "state" in arg:
            return self.w.data.state[arg["state"]]
        return self.w.data.constants[arg["constant"]]

    def tensor(self, name: str) -> str:
        """The name of a tensor argument."""
        return self.name_of(self.args[name])

    def optional(self, name: str) -> str | None:
        """The same, or None."""
        return self.tensor(name) if self.has(name) else None

    def name_of(self, place: Any) -> str:
        data = self.w.data
        if "value" in place:
            return self.w.names[place["value"]]
        which, kind = (place.get("state"), "state") if "state" in place else (None, "constant")
        if kind == "state":
            name = data.state_names[which]  # type: ignore[index]
            tensor = data.state[which]  # type: ignore[index]
        else:
            name, tensor = f"constant.{place['constant']}", data.constants[place["constant"]]
        if name not in self.w.initializers:
            self.w.initializers[name] = self.w.proto(tensor, name)
        return name

    def is_tensor(self, name: str) -> bool:
        found = self.args.get(name)
        return isinstance(found, dict) and bool({"value", "state", "constant"} & set(found))

    def as_dtype(self, name: str, dtype: Any) -> str:
        """An operand, tensor or number, in a dtype."""
        if not self.is_tensor(name):
            value = self.get(name)
            if not dtype.is_floating_point and not dtype.is_complex and dtype != _C.bool:
                value = int(value)
            return self.constant(value, dtype)
        return self.cast(self.tensor(name), self.dtype(name), dtype)

    def cast(self, name: str, before: Any, dtype: Any) -> str:
        if before == dtype:
            return name
        return self.emit("Cast", name, to=onnx_type(dtype))

    def dtype(self, name: str) -> Any:
        return self.example(name).dtype

    def shape(self, name: str) -> list[int | None]:
        """The sizes of a tensor argument, None where they change."""
        arg = self.args[name]
        if "value" in arg:
            return self.w.shapes[arg["value"]]
        return list(self.example(arg).shape)

    def rank(self, name: str) -> int:
        return self.example(name).dim()

    def dim(self, name: str = "dim", of: str = "self", default: int = 0) -> int:
        """A dim, counted from the front."""
        rank = self.rank(of)
        return self.get(name, default) % max(rank, 1)

    def size_of(self, tensor: str, dim: int, name: str | None = None) -> int | str:
        """A size of an argument: an int, or the name of a tensor of one int."""
        known = self.shape(tensor)[dim]
        if known is not None:
            return known
        return self.emit("Shape", name or self.tensor(tensor), start=dim, end=dim + 1)

    def result(self, i: int = 0) -> Tensor:
        """What a result was in the example's run."""
        number = self.results[i]
        return self.w.tensors[number if isinstance(number, int) else number[0]]

    def result_shape(self, i: int = 0) -> list[int | None]:
        return self.w.shapes[self.results[i]]

    def used(self, i: int) -> bool:
        """Whether anybody uses a result."""
        number = self.results[i]
        data = self.w.data
        in_body = any(number in read_by(row) for row in data.body)
        return in_body or number in places_of(data.output)


def is_integer(dtype: Any) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype != _C.bool


SQRT_HALF = math.sqrt(0.5)
