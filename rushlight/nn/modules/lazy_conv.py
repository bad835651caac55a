"""The lazy versions of convolutions. Loaded when first asked for, see nn/_uninitialized.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight._C import Tensor
from rushlight.nn._uninitialized import UninitializedParameter
from rushlight.nn.modules import conv
from rushlight.nn.modules._homes import live_in
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.types import Device, _dtype

__all__ = [
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]  # fmt: skip


class _LazyConv(LazyModuleMixin):
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int],
                 stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                 dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__(
            0,
            0,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=False,
            padding_mode=padding_mode,
        )
        self._make_lazy(out_channels, bias, device, dtype)

    def _make_lazy(self, out_channels, bias, device, dtype):
        options = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**options)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**options)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        if input.dim() not in (self.dims + 1, self.dims + 2):  # type: ignore[attr-defined]
            raise RuntimeError(
                f"{type(self).__name__} takes an input of {self.dims + 1} or {self.dims + 2} dims, "  # type: ignore[attr-defined]
                f"got shape {list(input.shape)}"
            )
        self.in_channels = input.shape[-self.dims - 1]  # type: ignore[attr-defined]
        if self.in_channels % self.groups:  # type: ignore[attr-defined]
            raise ValueError(
                f"in_channels must be divisible by groups, got {self.in_channels} and {self.groups}"  # type: ignore[attr-defined]
            )
        self.weight.materialize(self._weight_shape())  # type: ignore[attr-defined]
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConvTranspose(_LazyConv):
    def __init__(self, out_channels: int, kernel_size: int | Sequence[int],
                 stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                 output_padding: int = 0, groups: int = 1, bias: bool = True,
                 dilation: int | Sequence[int] = 1, padding_mode: str = "zeros",
                 device: Device = None, dtype: _dtype | None = None) -> None:  # fmt: skip
        super(_LazyConv, self).__init__(
            0,
            0,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=False,
            dilation=dilation,
            padding_mode=padding_mode,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, conv.Conv1d):
    """Conv1d that takes in_channels from its first input.

    Arguments:
        out_channels: how many kernels.
        kernel_size: size of a kernel.
        stride, padding, dilation, groups, bias, padding_mode: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyConv1d(4, 3, padding=1)
        >>> layer(rl.zeros(1, 3, 8)).shape, layer.in_channels
        (rushlight.Size([1, 4, 8]), 3)
    """

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """Conv2d that takes in_channels from its first input.

    Arguments:
        out_channels: how many kernels.
        kernel_size: size of a kernel.
        stride, padding, dilation, groups, bias, padding_mode: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyConv2d(4, 3, padding=1)
        >>> layer(rl.zeros(1, 3, 8, 8)).shape, layer.in_channels
        (rushlight.Size([1, 4, 8, 8]), 3)
    """

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """Conv3d that takes in_channels from its first input.

    Arguments:
        out_channels: how many kernels.
        kernel_size: size of a kernel.
        stride, padding, dilation, groups, bias, padding_mode: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyConv3d(4, 3, padding=1)
        >>> layer(rl.zeros(1, 3, 8, 8, 8)).shape, layer.in_channels
        (rushlight.Size([1, 4, 8, 8, 8]), 3)
    """

    cls_to_become = conv.Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """ConvTranspose1d that takes in_channels from its first input.

    Arguments:
        out_channels: how many kernels.
        kernel_size: size of a kernel.
        stride, padding, output_padding, dilation, groups, bias, padding_mode: as for the layer
            that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyConvTranspose1d(4, 2, stride=2)
        >>> layer(rl.zeros(1, 3, 8)).shape, layer.in_channels
        (rushlight.Size([1, 4, 16]), 3)
    """

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """ConvTranspose2d that takes in_channels from its first input.

    Arguments:
        out_channels: how many kernels.
        kernel_size: size of a kernel.
        stride, padding, output_padding, dilation, groups, bias, padding_mode: as for the layer
            that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyConvTranspose2d(4, 2, stride=2)
        >>> layer(rl.zeros(1, 3, 8, 8)).shape, layer.in_channels
        (rushlight.Size([1, 4, 16, 16]), 3)
    """

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """ConvTranspose3d that takes in_channels from its first input.

    Arguments:
        out_channels: how many kernels.
        kernel_size: size of a kernel.
        stride, padding, output_padding, dilation, groups, bias, padding_mode: as for the layer
            that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyConvTranspose3d(4, 2, stride=2)
        >>> layer(rl.zeros(1, 3, 8, 8, 8)).shape, layer.in_channels
        (rushlight.Size([1, 4, 16, 16, 16]), 3)
    """

    cls_to_become = conv.ConvTranspose3d


live_in("conv", LazyConv1d, LazyConv2d, LazyConv3d)
live_in("conv", LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d)
