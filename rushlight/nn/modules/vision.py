"""Upsampling, and images as patches, as layers."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules._homes import live_in
from rushlight.nn.modules.module import Module

__all__ = ["Fold", "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Brings the spatial dims to `size`, or to scale_factor times their size.

    Arguments:
        size: the new spatial size.
        scale_factor: or how many times larger.
        mode: 'nearest', 'linear', 'bilinear', 'bicubic' or 'trilinear'.
        align_corners: let the centres of the corner elements stay where they are.
        recompute_scale_factor: take the scale from the rounded sizes.

    Example:
        >>> nn.Upsample(scale_factor=2, mode="bilinear")(rl.zeros(1, 3, 8, 8)).shape
        rushlight.Size([1, 3, 16, 16])
    """

    __constants__: list[str] = (
        "size scale_factor mode align_corners name recompute_scale_factor".split()
    )

    def __init__(self, size: int | tuple[int, int] | None = None,
                 scale_factor: float | tuple[float, float] | None = None, mode: str = "nearest",
                 align_corners: bool | None = None,
                 recompute_scale_factor: bool | None = None) -> None:  # fmt: skip
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(s) for s in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             self.recompute_scale_factor)  # fmt: skip

    def extra_repr(self) -> str:
        by = (
            f"scale_factor={self.scale_factor!r}"
            if self.scale_factor is not None
            else f"size={self.size!r}"
        )
        return f"{by}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample with mode 'nearest'.

    Arguments:
        size: the new spatial size.
        scale_factor: or how many times larger.

    Example:
        >>> nn.UpsamplingNearest2d(scale_factor=2)(rl.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: int | tuple[int, int] | None = None,
                 scale_factor: float | tuple[float, float] | None = None) -> None:  # fmt: skip
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode 'bilinear' and align_corners.

    Arguments:
        size: the new spatial size.
        scale_factor: or how many times larger.

    Example:
        >>> nn.UpsamplingBilinear2d(size=(1, 3))(rl.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: int | tuple[int, int] | None = None,
                 scale_factor: float | tuple[float, float] | None = None) -> None:  # fmt: skip
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Fold(Module):
    """Adds patches back to the places they came from.

    Arguments:
        output_size: (H, W) of the picture.
        kernel_size: length of the window, one number for all dims or one per dim.
        dilation: distance between the elements of a window.
        padding: how many elements are added on both sides.
        stride: distance between patches.

    Example:
        >>> nn.Fold(output_size=(4, 4), kernel_size=2, stride=2)(rl.zeros(1, 12, 4)).shape
        rushlight.Size([1, 3, 4, 4])
    """

    __constants__ = "output_size kernel_size dilation padding stride".split()

    def __init__(self, output_size: int | tuple[int, ...], kernel_size: int | tuple[int, ...],
                 dilation: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] = 0,
                 stride: int | tuple[int, ...] = 1) -> None:  # fmt: skip
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding,
                      self.stride)  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """The patches that a kernel sees, one per column.

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        dilation: distance between the elements of a window.
        padding: how many elements are added on both sides.
        stride: distance between patches.

    Example:
        >>> nn.Unfold(kernel_size=2, stride=2)(rl.zeros(1, 3, 4, 4)).shape
        rushlight.Size([1, 12, 4])
    """

    __constants__ = "kernel_size dilation padding stride".split()

    def __init__(self, kernel_size: int | tuple[int, ...], dilation: int | tuple[int, ...] = 1,
                 padding: int | tuple[int, ...] = 0,
                 stride: int | tuple[int, ...] = 1) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


live_in("fold", Fold, Unfold)
live_in("upsampling", Upsample, UpsamplingBilinear2d, UpsamplingNearest2d)
