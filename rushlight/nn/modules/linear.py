"""Linear maps."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules._homes import getattr_of
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Returns its input; takes any arguments and ignores them.

    Any arguments are accepted: it takes the place of a layer that is to do nothing, such as the
    head of a pretrained network.

    Arguments:
        args, kwargs: ignored.

    Example:
        >>> nn.Identity(54, unused=True)(rl.tensor([1, 2]))
        tensor([1, 2])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """A layer of weighted sums: input @ weight.T + bias over the last dim.

    Weights and bias begin uniform within 1 / sqrt(in_features).

    Arguments:
        in_features: size of the last dim of the input.
        out_features: size of the last dim of the output.
        bias: whether to add one.
        device, dtype: where the parameters lie, and their dtype.

    Shape: (..., in_features) to (..., out_features).

    Example:
        >>> layer = nn.Linear(3, 2, bias=False)
        >>> layer
        Linear(in_features=3, out_features=2, bias=False)
        >>> layer(rl.ones(5, 3)).shape
        rushlight.Size([5, 2])
    """

    __constants__: tuple[str, ...] = ("in_features", "out_features")

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 device: Device = None, dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(_C.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_C.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers within 1/sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under the name that attention layers of older programs use."""


class Bilinear(Module):
    """y = x1 A x2 + b over the last dims.

    Arguments:
        in1_features, in2_features: sizes of the last dims of the two inputs.
        out_features: size of the last dim of the output.
        bias: whether to add one.
        device, dtype: where the parameters lie, and their dtype.

    Shape: (..., in1_features) and (..., in2_features) to (..., out_features).

    Example:
        >>> nn.Bilinear(2, 3, 4, bias=False)(rl.ones(5, 2), rl.ones(5, 3)).shape
        rushlight.Size([5, 4])
    """

    __constants__: tuple[str, ...] = ("in1_features", "in2_features", "out_features")

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
                 device: Device = None, dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(
            _C.empty((out_features, in1_features, in2_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(_C.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers within 1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


__getattr__ = getattr_of(__name__)
