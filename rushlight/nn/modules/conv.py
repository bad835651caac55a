"""Convolutions and transposed convolutions as layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules._homes import getattr_of
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _tuple(value, dims):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class _ConvNd(Module):
    """What all convolutions share; `dims` is the number of spatial dims."""

    __constants__ = """stride padding dilation groups padding_mode output_padding in_channels
out_channels kernel_size""".split()
    dims: Any = None
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Parameter
    bias: Parameter | None
    transposed = False

    def _make(self, in_channels, out_channels, kernel_size, stride, padding, output_padding,
              dilation, groups, bias, padding_mode, device, dtype):  # fmt: skip
        if groups <= 0:
            raise ValueError(f"groups must be positive, got {groups}")
        for label, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ValueError(f"{label} must be divisible by groups, got {count} and {groups}")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"padding must be a number, 'same' or 'valid', got {padding!r}")
            if padding == "same" and any(s != 1 for s in _tuple(stride, self.dims)):
                raise ValueError(f"padding='same' needs a stride of 1, got {stride}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _tuple(kernel_size, self.dims)
        self.stride = _tuple(stride, self.dims)
        self.padding = padding if isinstance(padding, str) else _tuple(padding, self.dims)
        self.dilation = _tuple(dilation, self.dims)
        self.output_padding = _tuple(output_padding, self.dims)
        self.groups = groups
        self.padding_mode = padding_mode
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(_C.empty(self._weight_shape(), **options))
        if bias:
            self.bias = Parameter(_C.empty(out_channels, **options))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self):
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Uniform within 1 / sqrt(fan in), weight and bias alike."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * len(self.dilation):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    @property
    def _reversed_padding_repeated_twice(self):
        """The widths for nn.functional.pad; subclasses written for PyTorch read them."""
        if isinstance(self.padding, str):
            return list(self._border()) if self.padding == "same" else [0] * (2 * self.dims)
        return [p for p in reversed(self.padding) for _ in range(2)]

    def __getstate__(self) -> Any:
        # PyTorch, which may read the file, keeps these widths.
        widths = self._reversed_padding_repeated_twice
        return self.__dict__ | {"_reversed_padding_repeated_twice": widths}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")
        self.__dict__.pop("_reversed_padding_repeated_twice", None)  # derived here


class _Conv(_ConvNd):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int],
                 stride: int | tuple[int] = 1, padding: str | int | tuple[int] = 0,
                 dilation: int | tuple[int] = 1, groups: int = 1, bias: bool = True,
                 padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
                 device: Device = None, dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self._make(in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups,
                   bias, padding_mode, device, dtype)  # fmt: skip

    def _border(self):
        """Widths for nn.functional.pad, from the last dim on."""
        widths = []
        for d in reversed(range(self.dims)):
            if self.padding == "valid":
                pair = (0, 0)
            elif self.padding == "same":
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                pair = (total // 2, total - total // 2)
            else:
                pair = (self.padding[d], self.padding[d])
            widths.extend(pair)
        return widths

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._border(), mode=self.padding_mode), 0
        return self._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Slides kernels over the last dim of (N, C, L) or (C, L)."""

    dims, _convolve = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Slides kernels over the last two dims of (N, C, H, W) or (C, H, W)."""

    dims, _convolve = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Slides kernels over the last three dims of (N, C, D, H, W) or (C, D, H, W)."""

    dims, _convolve = 3, staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int],
                 stride: int | tuple[int] = 1, padding: int | tuple[int] = 0,
                 output_padding: int | tuple[int] = 0, groups: int = 1, bias: bool = True,
                 dilation: int | tuple[int] = 1,
                 padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
                 device: Device = None, dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(
                f'only padding_mode "zeros" is supported by {type(self).__name__}, got '
                f"{padding_mode!r}"
            )
        self._make(in_channels, out_channels, kernel_size, stride, padding, output_padding,
                   dilation, groups, bias, padding_mode, device, dtype)  # fmt: skip

    def _output_padding(self, input, output_size):
        """What to add at the end so that the output has this size."""
        if output_size is None:
            return self.output_padding
        dims = self.dims
        wanted = list(output_size)
        if len(wanted) == input.dim():
            wanted = wanted[-dims:]
        if len(wanted) != dims:
            raise ValueError(
                f"output_size must have {dims} or {input.dim()} numbers, got {list(output_size)}"
            )
        extra = []
        for d, (n, size) in enumerate(zip(input.shape[-dims:], wanted, strict=True)):
            least = (n - 1) * self.stride[d] - 2 * self.padding[d]
            least += self.dilation[d] * (self.kernel_size[d] - 1) + 1
            if not least <= size <= least + self.stride[d] - 1:
                raise ValueError(
                    f"output_size {list(wanted)} is out of reach: dim {d} can have {least} to "
                    f"{least + self.stride[d] - 1} for an input of shape {list(input.shape)}"
                )
            extra.append(size - least)
        return tuple(extra)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return self._convolve(input, self.weight, self.bias, self.stride, self.padding, extra,
                              self.groups, self.dilation)  # fmt: skip


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of Conv1d as a layer."""

    dims, _convolve = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of Conv2d as a layer."""

    dims, _convolve = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of Conv3d as a layer."""

    dims, _convolve = 3, staticmethod(F.conv_transpose3d)


__getattr__ = getattr_of(__name__)
