"""Layers that take and give quantized tensors."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor, nn
from rushlight._quantized.scalars import plus_number, times_number
from rushlight._quantized.tensor import QuantizedTensor, Quantizer, plain, quantized
from rushlight.ao.nn.quantized import dynamic as dynamic
from rushlight.ao.nn.quantized._activations import (
    ELU,
    BatchNorm2d,
    BatchNorm3d,
    BNReLU2d,
    BNReLU3d,
    Dropout,
    GroupNorm,
    Hardswish,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LeakyReLU,
    PReLU,
    ReLU6,
    Sigmoid,
    Softmax,
)
from rushlight.ao.nn.quantized._embedding import Embedding, EmbeddingBag
from rushlight.ao.nn.quantized._joined import joined_parts
from rushlight.ao.nn.quantized._state import (
    LinearPackedParams,
    Packed,
    WithEntries,
    step_entries,
    take_steps,
)
from rushlight.ao.nn.quantized._weights import (
    PackedLinear,
    QuantizedLayer,
    checked_input,
    quantized_weight,
    result_steps,
    weight_observer,
    zero_weight,
)
from rushlight.nn import Identity, Module
from rushlight.nn import functional as F

__all__ = [
    "ELU",
    "BNReLU2d",
    "BNReLU3d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DeQuantize",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "FloatFunctional",
    "GroupNorm",
    "Hardswish",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LinearReLU",
    "PReLU",
    "QFunctional",
    "Quantize",
    "ReLU6",
    "Sigmoid",
    "Softmax",
]


class Quantize(Module):
    """Floats to integers, in given steps."""

    def __init__(self, scale: Any, zero_point: Any, dtype: Any) -> None:
        super().__init__()
        self.register_buffer("scale", _C.as_tensor(scale, dtype=_C.float32).reshape(1))
        self.register_buffer("zero_point", _C.as_tensor(zero_point, dtype=_C.int64).reshape(1))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Tensor:
        scale, zero = float(self.scale), int(self.zero_point)
        made: Any = rushlight.quantize_per_tensor(X, scale, zero, self.dtype)
        return made

    @classmethod
    def from_float(cls, mod: Any) -> Quantize:
        """In place of a QuantStub that was observed."""
        scale, zero = result_steps(mod)
        return cls(scale, zero, mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Integers to floats."""

    def forward(self, Xq: Tensor) -> Tensor:
        made: Any = rushlight.dequantize(Xq)
        return made

    @classmethod
    def from_float(cls, mod: Any) -> DeQuantize:
        """In place of a DeQuantStub."""
        return cls()


class Linear(PackedLinear):
    """nn.Linear over quantized tensors."""

    _version = 3

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.zero_point = 1.0, 0
        self._packed_params = LinearPackedParams(dtype)
        bias = _C.zeros(out_features) if bias_ else None
        self.set_weight_bias(zero_weight((out_features, in_features)), bias)

    def forward(self, x: Tensor) -> Tensor:
        """x @ weight.T + bias, in the layer's own steps."""
        x = checked_input("Linear", x)
        w: Packed = self._packed
        made = _C._quantized_linear(plain(x), w.integers, w.scales, w.bias, *self._steps(x))
        return self._result(made)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """In place of a Linear that was observed (and the norm or the ReLU behind it)."""
        inner, weight, bias = joined_parts(mod)
        made = cls(inner.in_features, inner.out_features, bias is not None)
        made.scale, made.zero_point = result_steps(mod)
        made.set_weight_bias(quantized_weight(weight, weight_observer(inner)), bias)
        return made

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )


class _ThenReLU:
    _with_relu = True


class LinearReLU(_ThenReLU, Linear):
    """A Linear and a ReLU over quantized tensors."""


class _AnyConv(QuantizedLayer):
    _float: Any  # the plain module
    _KEPT = (
        *("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation"),
        *("groups", "padding_mode", "output_padding", "_reversed_padding_repeated_twice"),
    )

    def _like(self, **arguments: Any) -> None:
        """Takes the numbers of a plain module with these arguments."""
        self.scale, self.zero_point = 1.0, 0
        with _C.device("meta"):
            like = self._float(**arguments)
        for name in self._KEPT:
            setattr(self, name, getattr(like, name))
        bias = _C.zeros(self.out_channels) if like.bias is not None else None
        self.set_weight_bias(zero_weight(like.weight.shape), bias)

    def _run(self, x: Tensor, transposed: bool, extra: Any) -> Tensor:
        x = checked_input(type(self).__name__, x)
        integers, padding = self._padded(x)
        w: Packed = self._packed
        single = integers.dim() == w.integers.dim() - 1
        steps, zeros, relu, dtype = self._steps(x)
        made = _C._quantized_convolution(
            integers.unsqueeze(0) if single else integers, w.integers, w.scales, w.bias,
            self.stride, padding, self.dilation, transposed, extra, self.groups, steps, zeros,
            relu, dtype,
        )  # fmt: skip
        return self._result(made.squeeze(0) if single else made)

    def _padded(self, x: QuantizedTensor) -> tuple[Tensor, Any]:
        """The integers, and the padding that is left to the convolution."""
        integers = plain(x)
        if self.padding_mode != "zeros":
            widths = self._reversed_padding_repeated_twice
            return F.pad(integers, widths, mode=self.padding_mode), [0]
        if not isinstance(self.padding, str):
            return integers, self.padding
        if self.padding == "valid":
            return integers, [0]
        spread = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        if any(total % 2 for total in spread):  # one more at the end
            ends = [n for total in reversed(spread) for n in (0, total % 2)]
            integers = F.pad(integers, ends, value=x._quantizer.zero_point)
        return integers, [total // 2 for total in spread]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> _AnyConv:
        """In place of a convolution that was observed (and the norm or the ReLU behind it)."""
        inner, weight, bias = joined_parts(mod)
        arguments = {name: getattr(inner, name) for name in cls._KEPT if name[0] != "_"}
        if not inner.transposed:
            del arguments["output_padding"]
        made = cls(**arguments, bias=bias is not None)
        made.scale, made.zero_point = result_steps(mod)
        made.set_weight_bias(quantized_weight(weight, weight_observer(inner)), bias)
        return made

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}, "
            f"padding={self.padding}"
        )


class _Conv(_AnyConv):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._like(
            in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size,
            stride=stride, padding=padding, dilation=dilation, groups=groups, bias=bias,
            padding_mode=padding_mode,
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of x, in the layer's own steps."""
        return self._run(x, False, [0])


class _ConvTranspose(_AnyConv):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._like(
            in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size,
            stride=stride, padding=padding, output_padding=output_padding, groups=groups, bias=bias,
            dilation=dilation, padding_mode=padding_mode,
        )  # fmt: skip

    def _outputs(self) -> int:
        return self.out_channels

    def forward(self, x: Tensor) -> Tensor:
        """The transposed convolution of x, in the layer's own steps."""
        return self._run(x, True, self.output_padding)


class Conv1d(_Conv):
    """nn.Conv1d over quantized tensors."""

    _float = nn.Conv1d


class Conv2d(_Conv):
    """nn.Conv2d over quantized tensors."""

    _float = nn.Conv2d


class Conv3d(_Conv):
    """nn.Conv3d over quantized tensors."""

    _float = nn.Conv3d


class ConvReLU1d(_ThenReLU, Conv1d):
    """A Conv1d and a ReLU over quantized tensors."""


class ConvReLU2d(_ThenReLU, Conv2d):
    """A Conv2d and a ReLU over quantized tensors."""


class ConvReLU3d(_ThenReLU, Conv3d):
    """A Conv3d and a ReLU over quantized tensors."""


class ConvTranspose1d(_ConvTranspose):
    """nn.ConvTranspose1d over quantized tensors."""

    _float = nn.ConvTranspose1d


class ConvTranspose2d(_ConvTranspose):
    """nn.ConvTranspose2d over quantized tensors."""

    _float = nn.ConvTranspose2d


class ConvTranspose3d(_ConvTranspose):
    """nn.ConvTranspose3d over quantized tensors."""

    _float = nn.ConvTranspose3d


class FloatFunctional(Module):
    """Sums, products and joins as a module, so that their results can be observed."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Module = Identity()

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional: call add, mul, cat, ... and not the module itself")

    def _seen(self, x: Tensor) -> Tensor:
        return self.activation_post_process(x)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y"""
        return self._seen(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y for a number y"""
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y"""
        return self._seen(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y for a number y"""
        return x * y

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        """The tensors joined along dim."""
        return self._seen(_C.cat(x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)"""
        return self._seen((x + y).relu())

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y"""
        return self._seen(x @ y)


class QFunctional(WithEntries):
    """The same over quantized tensors, with results in given steps."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process: Module = Identity()

    def _steps(self, numbers: Tensor, dtype: Any) -> QuantizedTensor:
        return quantized(numbers, Quantizer(dtype, self.scale, self.zero_point))

    def _combined(self, x: Any, y: Any, multiply: bool, relu: bool) -> Tensor:
        name = "mul" if multiply else "add"
        p, q = (checked_input(name, t)._by_tensor(name) for t in (x, y))
        made = Quantizer(p.dtype, self.scale, self.zero_point)
        scales, zeros = (
            [p.scale, q.scale, self.scale],
            [p.zero_point, q.zero_point, made.zero_point],
        )
        integers = _C._quantized_combine(plain(x), plain(y), scales, zeros, multiply, relu)
        return QuantizedTensor.of(integers, made)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y"""
        return self._combined(x, y, False, False)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)"""
        return self._combined(x, y, False, True)

    def add_scalar(self, x: Any, y: float) -> Tensor:
        """x + y for a number y, in the steps of x"""
        return plus_number(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y"""
        return self._combined(x, y, True, False)

    def mul_scalar(self, x: Any, y: float) -> Tensor:
        """x * y for a number y, in the steps of x"""
        return times_number(x, y)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y"""
        return self._steps(x.dequantize() @ y.dequantize(), x.dtype)

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        """The tensors joined along dim."""
        return self._steps(_C.cat([t.dequantize() for t in x], dim), x[0].dtype)

    def _entries(self) -> dict[str, Any]:
        return step_entries(self)

    def _take(self, entries: dict[str, Any]) -> None:
        take_steps(self, entries)

    @classmethod
    def from_float(cls, mod: Any) -> QFunctional:
        """In place of a FloatFunctional that was observed."""
        made = cls()
        made.scale, made.zero_point = result_steps(mod)
        return made
