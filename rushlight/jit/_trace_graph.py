"""jit._get_trace_graph: the operators that a module calls, one by one, as a graph of nodes with
PyTorch's names and shapes. Counters of operations (fvcore) read such graphs; nothing runs them.

A TorchDispatchMode sees the operators. What PyTorch's traces name or pass otherwise is put into
their form here (`_FORMS`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import Module
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

_here = threading.local()


class Type:
    """Of a value: a tensor with its sizes, or one of Python's kinds."""

    def __init__(self, value: Any) -> None:
        self._name = _type_name(value)
        if isinstance(value, Tensor):
            self._sizes, self._strides = list(value.shape), list(value.stride())
            self._dtype, self._device = value.dtype, value.device
            self._requires_grad = value.requires_grad

    def kind(self) -> str:
        return "TensorType" if self._name == "Tensor" else f"{self._name.capitalize()}Type"

    def sizes(self) -> list[int]:
        return self._sizes

    def strides(self) -> list[int]:
        return self._strides

    def dim(self) -> int:
        return len(self._sizes)

    def dtype(self) -> _C.dtype:
        return self._dtype

    def scalarType(self) -> str:
        return _SCALARS.get(str(self._dtype).rpartition(".")[2], "Undefined")

    def device(self) -> _C.device:
        return self._device

    def requires_grad(self) -> bool:
        return self._requires_grad

    @property
    def annotation_str(self) -> str:
        return self._name

    def __str__(self) -> str:
        if self._name != "Tensor":
            return self._name
        sizes = ", ".join(map(str, self._sizes))
        grad, strides = int(self._requires_grad), self._strides
        facts = f"strides={strides}, requires_grad={grad}, device={self._device}"
        return f"{self.scalarType()}({sizes}, {facts})"

    __repr__ = __str__


class Value:
    """An input of the graph, or what a node gives."""

    def __init__(self, name: str, node: Node, value: Any) -> None:
        self._name, self._node, self._type, self._constant = name, node, Type(value), None

    def debugName(self) -> str:
        return self._name

    def node(self) -> Node:
        return self._node

    def type(self) -> Type:
        return self._type

    def isCompleteTensor(self) -> bool:
        return self._type.annotation_str == "Tensor"

    def toIValue(self) -> Any:
        """What a constant is; None for everything else."""
        return self._constant

    def __repr__(self) -> str:
        return f"%{self._name} : {self._type}"


class Node:
    """One operator with its inputs and outputs."""

    def __init__(self, kind: str, scope: str, inputs: Sequence[Value]) -> None:
        self._kind, self._scope, self._inputs = kind, scope, list(inputs)
        self._outputs: list[Value] = []

    def kind(self) -> str:
        return self._kind

    def scopeName(self) -> str:
        return self._scope

    def inputs(self) -> Iterable[Value]:
        return iter(self._inputs)

    def outputs(self) -> Iterable[Value]:
        return iter(self._outputs)

    def output(self) -> Value:
        (only,) = self._outputs
        return only

    def inputsSize(self) -> int:
        return len(self._inputs)

    def outputsSize(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        outputs = ", ".join(map(repr, self._outputs))
        inputs = ", ".join(f"%{value.debugName()}" for value in self._inputs)
        constant = (
            f"[value={self._outputs[0].toIValue()!r}]" if self._kind == "prim::Constant" else ""
        )
        return f"{outputs} = {self._kind}{constant}({inputs})"


class Graph:
    """The nodes in the order of the calls."""

    def __init__(self) -> None:
        self._params, self._nodes = Node("prim::Param", "", ()), list[Node]()
        self._returned: list[Value] = []
        self._count = 0

    def nodes(self) -> Iterable[Node]:
        return iter(self._nodes)

    def inputs(self) -> Iterable[Value]:
        return self._params.outputs()

    def outputs(self) -> Iterable[Value]:
        return iter(self._returned)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        return [node for node in self._nodes if node.kind() == kind]

    def _value(self, node: Node, value: Any) -> Value:
        made = Value(str(self._count), node, value)
        self._count += 1
        node._outputs.append(made)
        return made

    def __str__(self) -> str:
        inputs = ",\n      ".join(map(repr, self.inputs()))
        lines = "".join(f"  {node!r}\n" for node in self._nodes)
        returned = ", ".join(f"%{value.debugName()}" for value in self._returned)
        return f"graph({inputs}):\n{lines}  return ({returned})\n"


class TracingState(TorchDispatchMode):
    """What `_C._get_tracing_state()` gives meanwhile; modules push and pop scopes."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self._scopes: list[str] = []
        self._values: dict[int, Value] = {}
        self._kept: list[Any] = []  # so that no other object gets the id of one that was seen

    def push_scope(self, name: str) -> None:
        self._scopes.append(name)

    def pop_scope(self) -> None:
        self._scopes.pop()

    def current_scope(self) -> str:
        return "/".join(self._scopes)

    def _keep(self, tensor: Tensor, value: Value) -> None:
        self._values[id(tensor)] = value
        self._kept.append(tensor)

    def add_input(self, tensor: Tensor) -> None:
        if id(tensor) not in self._values:
            self._keep(tensor, self.graph._value(self.graph._params, tensor))

    def value_of(self, value: Any) -> Value:
        """The value that an argument is: a known tensor, a constant, or a list made of values."""
        if isinstance(value, Tensor) and id(value) in self._values:
            return self._values[id(value)]
        if isinstance(value, list | tuple):
            node = Node(
                "prim::ListConstruct", self.current_scope(), [self.value_of(v) for v in value]
            )
        else:
            node = Node("prim::Constant", self.current_scope(), ())
        self.graph._nodes.append(node)
        made = self.graph._value(node, value)
        if node.kind() == "prim::Constant":
            made._constant = value
        if isinstance(value, Tensor):
            self._keep(value, made)
        return made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.").partition(".")[0]
        given = [*args, *(kwargs or {}).values()]
        plain = name.removeprefix("_")
        if plain in _FORMS:
            name, given = _FORMS[plain](name, given)
        elif plain in _HIDDEN:
            name = plain
        # Before the call: an operator in place gives its tensor a new value.
        inputs = [self.value_of(value) for value in given]
        result = func(*args, **(kwargs or {}))
        node = self._continued(name, inputs) if name.startswith("upsample") else None
        if node is None:
            node = Node(f"aten::{name}", self.current_scope(), inputs)
            self.graph._nodes.append(node)
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._keep(tensor, self.graph._value(node, tensor))
        return result

    def _continued(self, name: str, inputs: list[Value]) -> Node | None:
        """The last operator, where this one goes on with what it gave. (A picture is resampled dim
        by dim, and that is one operator of PyTorch's.)"""
        nodes = self.graph._nodes
        at = next(
            (i for i in reversed(range(len(nodes))) if nodes[i].kind().startswith("aten::")), None
        )
        if (
            at is None
            or nodes[at].kind() != f"aten::{name}"
            or nodes[at]._outputs[0] is not inputs[0]
        ):
            return None
        del nodes[at + 1 :]  # the constants of this call
        nodes[at]._outputs.clear()
        return nodes[at]


def _convolution(name: str, given: list[Any]) -> tuple[str, list[Any]]:
    x, weight, bias, stride, padding, *rest = given
    if "transpose" in name:
        output_padding, groups, dilation = rest
    else:
        dilation, groups = rest
        output_padding = [0] * len(stride)
    flags = [False, False, True, True]  # benchmark, deterministic, cudnn_enabled, allow_tf32
    transposed = "transpose" in name
    return "_convolution", [
        x,
        weight,
        bias,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        *flags,
    ]


def _as_dropout(name: str, given: list[Any]) -> tuple[str, list[Any]]:
    return name.removeprefix("_"), [given[0], given[2], True]


def _as_upsampling(name: str, given: list[Any]) -> tuple[str, list[Any]]:
    x, mode = given[0], given[3]
    dims = x.dim() - 2
    kind = {"linear": ["linear", "bilinear", "trilinear"][dims - 1], "cubic": "bicubic"}.get(
        mode.removeprefix("smooth-"), mode.replace("-", "_")
    )
    smooth = "_aa" if mode.startswith("smooth") else ""
    return f"upsample_{kind}{dims}d{smooth}", [x, list(x.shape[2:]), *given[4:]]


def _attention(name: str, given: list[Any]) -> tuple[str, list[Any]]:
    packed, heads, _, mask, dropout, causal = given
    batch, length, width = packed.shape
    part = packed.new_empty((batch, heads, length, width // 3 // heads), device="meta")
    return "scaled_dot_product_attention", [part, part, part, mask, dropout, causal, None, False]


# By our name, without a bar in front: what PyTorch's traces have in its place.
_FORMS: dict[str, Callable[[str, list[Any]], tuple[str, list[Any]]]] = {
    **{f"conv{kind}{n}d": _convolution for kind in ("", "_transpose") for n in (1, 2, 3)},
    **dict(
        zip(
            "dropout resample self_attention".split(),
            (_as_dropout, _as_upsampling, _attention),
            strict=True,
        )
    ),
}
# Those whose name has a bar in front here only.
_HIDDEN = frozenset(
    f"{kind}{n}d"
    for kind in ("avg_pool", "adaptive_avg_pool", "adaptive_max_pool")
    for n in (1, 2, 3)
) | frozenset("einsum embedding_bag".split())
_SCALARS = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def _type_name(value: Any) -> str:
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, list | tuple):
        return f"List[{_type_name(value[0]) if value else 'Tensor'}]"
    return {_C.device: "Device", _C.dtype: "int"}.get(type(value), type(value).__name__)


def tracing_state() -> TracingState | None:
    """The trace that runs in this thread."""
    return getattr(_here, "state", None)


def get_trace_graph(
    f: Callable[..., Any],
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
    _return_inputs_states: bool = False,
) -> tuple[Any, ...]:
    """(graph, what f gave), with the inputs behind them where they are asked for.

    Arguments:
        f: a module or a function.
        args, kwargs: what it is called with.
        strict, _force_outplace, _return_inputs_states: taken, and without effect.
        return_inputs: whether the inputs come back too.
    """
    args = args if isinstance(args, tuple) else (args,)
    state = TracingState()
    for tensor in pytree.tree_leaves((args, kwargs or {})):
        if isinstance(tensor, Tensor):
            state.add_input(tensor)
    if isinstance(f, Module):
        for tensor in (*f.parameters(), *f.buffers()):
            state.add_input(tensor)
    before, _here.state = tracing_state(), state
    try:
        with state:
            result = f(*args, **(kwargs or {}))
    finally:
        _here.state = before
    for tensor in pytree.tree_leaves(result):
        if isinstance(tensor, Tensor):
            state.graph._returned.append(state.value_of(tensor))
    return (state.graph, result, args) if return_inputs else (state.graph, result)
