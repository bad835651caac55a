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
    """A convolution over the last dim: slides learned kernels over (N, C, L) and sums the
    products.

    Arguments:
        in_channels: C of the input.
        out_channels: how many kernels.
        kernel_size: length of a kernel.
        stride: how far a kernel moves per step.
        padding: zeros added at both ends; 'same' keeps the length, 'valid' adds none.
        dilation: distance between the elements of a kernel.
        groups: the channels are cut into so many groups that do not see each other.
        bias: whether to add one number per output channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: where the parameters lie, and their dtype.

    Shape: (N, C, L) to (N, out_channels, (L + 2 padding - dilation (kernel_size - 1) - 1) //
        stride + 1).

    Example:
        >>> nn.Conv1d(4, 8, kernel_size=3, stride=2, padding=1)(rl.zeros(1, 4, 10)).shape
        rushlight.Size([1, 8, 5])
    """

    dims, _convolve = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """A convolution over the last two dims: slides learned kernels over pictures (N, C, H, W).

    The weight is (out_channels, in_channels / groups, KH, KW). Weights and bias begin uniform
    within 1 / sqrt(number of elements of a kernel). With groups=in_channels each channel has
    kernels of its own (a depthwise convolution).

    Arguments:
        in_channels: C of the input.
        out_channels: how many kernels.
        kernel_size: (KH, KW), or one number for both.
        stride: how far a kernel moves per step.
        padding: zeros added on both sides; 'same' keeps the size, 'valid' adds none.
        dilation: distance between the elements of a kernel.
        groups: the channels are cut into so many groups that do not see each other.
        bias: whether to add one number per output channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: where the parameters lie, and their dtype.

    Shape: (N, C, H, W) to (N, out_channels, H_out, W_out) with H_out = (H + 2 padding - dilation
        (KH - 1) - 1) // stride + 1.

    Example:
        >>> layer = nn.Conv2d(3, 16, kernel_size=3, stride=2, padding=1)
        >>> layer(rl.zeros(1, 3, 32, 32)).shape, layer.weight.shape
        (rushlight.Size([1, 16, 16, 16]), rushlight.Size([16, 3, 3, 3]))
    """

    dims, _convolve = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """A convolution over the last three dims: slides learned kernels over volumes (N, C, D, H,
    W).

    Arguments:
        in_channels: C of the input.
        out_channels: how many kernels.
        kernel_size: (KD, KH, KW), or one number for all.
        stride: how far a kernel moves per step.
        padding: zeros added on both sides; 'same' keeps the size, 'valid' adds none.
        dilation: distance between the elements of a kernel.
        groups: the channels are cut into so many groups that do not see each other.
        bias: whether to add one number per output channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.Conv3d(1, 2, kernel_size=3, padding=1)(rl.zeros(1, 1, 4, 8, 8)).shape
        rushlight.Size([1, 2, 4, 8, 8])
    """

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
    """The gradient of Conv1d as a layer.

    Arguments:
        in_channels: C of the input.
        out_channels: channels of the output.
        kernel_size: length of a kernel.
        stride: how many elements of the output lie between neighbours of the input.
        padding: how many elements are cut off at both ends of the output.
        output_padding: elements added at its right end.
        groups: the channels are cut into so many groups.
        bias: whether to add one number per output channel.
        dilation: distance between the elements of a kernel.
        padding_mode: only 'zeros'.
        device, dtype: where the parameters lie, and their dtype.

    Shape: (N, C, L) to (N, out_channels, (L - 1) stride - 2 padding + dilation (kernel_size - 1)
        + output_padding + 1).

    Example:
        >>> nn.ConvTranspose1d(4, 2, kernel_size=4, stride=2, padding=1)(rl.zeros(1, 4, 5)).shape
        rushlight.Size([1, 2, 10])
    """

    dims, _convolve = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of Conv2d as a layer.

    Enlarges pictures: kernel_size=4, stride=2, padding=1 doubles their size. Pass output_size to
    forward where stride leaves several sizes possible.

    Arguments:
        in_channels: C of the input.
        out_channels: channels of the output.
        kernel_size: (KH, KW), or one number for both.
        stride: how many elements of the output lie between neighbours of the input.
        padding: how many elements are cut off on both sides of the output.
        output_padding: elements added on one side of it.
        groups: the channels are cut into so many groups.
        bias: whether to add one number per output channel.
        dilation: distance between the elements of a kernel.
        padding_mode: only 'zeros'.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.ConvTranspose2d(8, 3, kernel_size=4, stride=2, padding=1)(rl.zeros(1, 8, 16,
        ...     16)).shape
        rushlight.Size([1, 3, 32, 32])
    """

    dims, _convolve = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of Conv3d as a layer.

    Arguments:
        in_channels: C of the input.
        out_channels: channels of the output.
        kernel_size: (KD, KH, KW), or one number for all.
        stride: how many elements of the output lie between neighbours of the input.
        padding: how many elements are cut off on both sides of the output.
        output_padding: elements added on one side of it.
        groups: the channels are cut into so many groups.
        bias: whether to add one number per output channel.
        dilation: distance between the elements of a kernel.
        padding_mode: only 'zeros'.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.ConvTranspose3d(2, 1, kernel_size=2, stride=2)(rl.zeros(1, 2, 3, 3, 3)).shape
        rushlight.Size([1, 1, 6, 6, 6])
    """

    dims, _convolve = 3, staticmethod(F.conv_transpose3d)


__getattr__ = getattr_of(__name__)
