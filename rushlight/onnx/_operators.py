"""What ONNX's operators compute, for modules that are made of ONNX files.

Each function takes the inputs (None where one is left out) and the attributes by name.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
import rushlight.nn.functional as F
from rushlight import _C
from rushlight._C import Tensor
from rushlight.onnx._writer import ONNX_TYPES

DTYPES = {number: getattr(_C, name) for name, number in ONNX_TYPES.items() if hasattr(_C, name)}
OPERATORS: dict[str, Callable[..., Any]] = {}


def _op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPERATORS[name] = function
        return function

    return decorate


_SAME = {
    "Abs": "abs", "Neg": "neg", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Sin": "sin",
    "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
    "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf",
    "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sign": "sign", "Sigmoid": "sigmoid",
    "Tanh": "tanh", "Relu": "relu", "Reciprocal": "reciprocal", "IsNaN": "isnan",
    "IsInf": "isinf", "Not": "logical_not", "Add": "add", "Sub": "sub", "Mul": "mul", "Pow": "pow",
    "MatMul": "matmul", "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt",
    "GreaterOrEqual": "ge", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "Where": "where", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "BitwiseNot": "bitwise_not",
}  # fmt: skip
for _onnx_name, _name in _SAME.items():
    OPERATORS[_onnx_name] = getattr(rushlight, _name)
for _onnx_name, _function in {
    "Softsign": F.softsign, "HardSwish": F.hardswish, "Mish": F.mish, "Softplus": F.softplus,
    "Selu": F.selu,
}.items():  # fmt: skip
    OPERATORS[_onnx_name] = _function


def _ints(x: Any) -> list[int]:
    """A tensor of ints as Python's; older files have attributes, which are lists."""
    return x.reshape(-1).tolist() if isinstance(x, Tensor) else list(x or [])


@_op("Identity", "Dropout")
def identity(x: Tensor, *rest: Any, **attributes: Any) -> Tensor:
    return x


@_op("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    whole = not a.is_floating_point() and not a.is_complex()
    return rushlight.div(a, b, rounding_mode="trunc") if whole else a / b


@_op("Mod")
def mod(a: Tensor, b: Tensor, fmod: int = 0) -> Tensor:
    return rushlight.fmod(a, b) if fmod else rushlight.remainder(a, b)


def _folded(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def fold(first: Tensor, *others: Tensor) -> Tensor:
        for other in others:
            first = function(first, other)
        return first

    return fold


OPERATORS["Max"] = _folded(rushlight.maximum)
OPERATORS["Min"] = _folded(rushlight.minimum)
OPERATORS["Sum"] = _folded(operator.add)


@_op("Clip")
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    x = x if low is None else rushlight.maximum(x, low)
    return x if high is None else rushlight.minimum(x, high)


@_op("Cast")
def cast(x: Tensor, to: int, saturate: int = 1) -> Tensor:
    return x.to(DTYPES[to])


@_op("LeakyRelu")
def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@_op("Elu")
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@_op("Celu")
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@_op("HardSigmoid")
def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return (x * alpha + beta).clamp(0, 1)


@_op("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return rushlight.where(x >= 0, x, x * slope)


@_op("Gelu")
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


# ---- shapes


@_op("Shape")
def shape(x: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    return rushlight.tensor(list(x.shape)[start:end], dtype=_C.int64)


@_op("Reshape")
def reshape(x: Tensor, to: Tensor, allowzero: int = 0) -> Tensor:
    sizes = _ints(to)
    return x.reshape([x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(sizes)])


@_op("Flatten")
def flatten(x: Tensor, axis: int = 1) -> Tensor:
    rows = 1
    for size in x.shape[:axis]:
        rows *= size
    return x.reshape(rows, -1)


@_op("Transpose")
def transpose(x: Tensor, perm: Sequence[int] | None = None) -> Tensor:
    return x.permute(list(perm) if perm is not None else list(range(x.dim()))[::-1])


@_op("Squeeze")
def squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(tuple(_ints(axes)))


@_op("Unsqueeze")
def unsqueeze(x: Tensor, axes: Tensor) -> Tensor:
    rank = x.dim() + axes.numel()
    for axis in sorted(a % rank for a in _ints(axes)):
        x = x.unsqueeze(axis)
    return x


@_op("Expand")
def expand(x: Tensor, to: Tensor) -> Tensor:
    return x.expand(rushlight.broadcast_shapes(x.shape, tuple(_ints(to))))


@_op("Tile")
def tile(x: Tensor, repeats: Tensor) -> Tensor:
    return x.repeat(_ints(repeats))


@_op("Concat")
def concat(*tensors: Tensor, axis: int) -> Tensor:
    return rushlight.cat(tensors, axis)


@_op("Split")
def split(
    x: Tensor, sizes: Tensor | None = None, axis: int = 0, num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    if sizes is not None:
        return tuple(x.split(_ints(sizes), axis))
    return tuple(x.split(-(-x.shape[axis] // (num_outputs or 1)), axis))


@_op("Slice")
def slice_(
    x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:  # fmt: skip
    first = _ints(starts)
    dims = list(range(len(first))) if axes is None else _ints(axes)
    by = [1] * len(first) if steps is None else _ints(steps)
    for dim, start, end, step in zip(dims, first, _ints(ends), by, strict=True):
        places = range(*slice(start, end, step).indices(x.shape[dim]))
        if step > 0:
            index = [slice(None)] * (dim % x.dim()) + [slice(places.start, places.stop, step)]
            x = x[tuple(index)]
        else:
            x = x.index_select(dim, rushlight.tensor(list(places), dtype=_C.int64))
    return x


@_op("Gather")
def gather(x: Tensor, index: Tensor, axis: int = 0) -> Tensor:
    axis %= x.dim()
    index = rushlight.where(index < 0, index + x.shape[axis], index)
    found = x.index_select(axis, index.reshape(-1))
    return found.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


@_op("GatherElements")
def gather_elements(x: Tensor, index: Tensor, axis: int = 0) -> Tensor:
    return x.gather(axis, rushlight.where(index < 0, index + x.shape[axis], index))


@_op("GatherND")
def gather_nd(x: Tensor, index: Tensor, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        raise NotImplementedError("GatherND: batch_dims is not supported")
    return x[tuple(index.unbind(-1))]


@_op("ScatterElements")
def scatter_elements(
    x: Tensor, index: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    if reduction != "none":
        raise NotImplementedError(f"ScatterElements: the reduction {reduction!r} is not supported")
    return x.scatter(axis, rushlight.where(index < 0, index + x.shape[axis], index), updates)


@_op("NonZero")
def nonzero(x: Tensor) -> Tensor:
    return x.nonzero().t()


@_op("Pad")
def pad(
    x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None,
    mode: str = "constant",
) -> Tensor:  # fmt: skip
    given, rank = _ints(pads), x.dim()
    dims = list(range(rank)) if axes is None else [a % rank for a in _ints(axes)]
    begins, ends = [0] * rank, [0] * rank
    for i, dim in enumerate(dims):
        begins[dim], ends[dim] = given[i], given[i + len(dims)]
    pairs = [n for d in reversed(range(rank)) for n in (begins[d], ends[d])]
    while len(pairs) > 2 and pairs[-2:] == [0, 0]:
        pairs = pairs[:-2]
    kind = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    if kind == "constant":
        return F.pad(x, pairs, value=0 if value is None else value.item())
    return F.pad(x, pairs, mode=kind)


@_op("Trilu")
def trilu(x: Tensor, k: Tensor | None = None, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else int(k.item())
    return x.triu(diagonal) if upper else x.tril(diagonal)


@_op("ConstantOfShape")
def constant_of_shape(sizes: Tensor, value: Tensor | None = None) -> Tensor:
    if value is None:
        return rushlight.zeros(_ints(sizes))
    return value.reshape(-1)[0].expand(_ints(sizes)).clone()


@_op("Range")
def range_(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return rushlight.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


@_op("OneHot")
def one_hot(index: Tensor, depth: Tensor, values: Tensor, axis: int = -1) -> Tensor:
    found = F.one_hot(index.long(), int(depth.item())).to(values.dtype)
    found = found * (values[1] - values[0]) + values[0]
    return found.movedim(-1, axis)


# ---- reductions and products


def _reducing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(
        x: Tensor, axes: Tensor | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        dims = _ints(axes)
        if not dims and noop_with_empty_axes:
            return x
        return function(x, dims or list(range(x.dim())), bool(keepdims))

    return reduce


def _product(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.prod(dim, keepdim=keep)
    return x


for _onnx_name, _reduce in {
    "ReduceSum": lambda x, d, k: x.sum(d, keepdim=k),
    "ReduceMean": lambda x, d, k: x.mean(d, keepdim=k),
    "ReduceMax": lambda x, d, k: x.amax(d, keepdim=k),
    "ReduceMin": lambda x, d, k: x.amin(d, keepdim=k),
    "ReduceProd": _product,
    "ReduceLogSumExp": lambda x, d, k: x.logsumexp(d, keepdim=k),
    "ReduceL1": lambda x, d, k: x.abs().sum(d, keepdim=k),
    "ReduceL2": lambda x, d, k: (x * x).sum(d, keepdim=k).sqrt(),
}.items():
    OPERATORS[_onnx_name] = _reducing(_reduce)


def _arg(method: str) -> Callable[..., Tensor]:
    def find(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        return getattr(x, method)(axis, keepdim=bool(keepdims))

    return find


OPERATORS["ArgMax"], OPERATORS["ArgMin"] = _arg("argmax"), _arg("argmin")


@_op("TopK")
def topk(
    x: Tensor, k: Tensor, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    found = x.topk(int(k.item()), axis, bool(largest))
    return found[0], found[1]


@_op("CumSum")
def cumsum(x: Tensor, axis: Tensor) -> Tensor:
    return x.cumsum(int(axis.item()))


@_op("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    a, b = (a.t() if transA else a), (b.t() if transB else b)
    found = a @ b if alpha == 1 else (a @ b) * alpha
    return found if c is None else found + (c if beta == 1 else c * beta)


@_op("Einsum")
def einsum(*tensors: Tensor, equation: str) -> Tensor:
    return rushlight.einsum(equation, *tensors)


@_op("Softmax")
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    return x.softmax(axis)


@_op("LogSoftmax")
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    return x.log_softmax(axis)
