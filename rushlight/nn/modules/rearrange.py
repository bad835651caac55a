"""Rearrangements of channels and space, as modules."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules._homes import live_in
from rushlight.nn.modules.module import Module

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """(..., C r^2, H, W) as (..., C, H r, W r).

    Arguments:
        upscale_factor: r.

    Example:
        >>> nn.PixelShuffle(2)(rl.zeros(1, 8, 3, 3)).shape
        rushlight.Size([1, 2, 6, 6])
    """

    __constants__: tuple[str, ...] = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(..., C, H r, W r) as (..., C r^2, H, W).

    Arguments:
        downscale_factor: r.

    Example:
        >>> nn.PixelUnshuffle(2)(rl.zeros(1, 2, 6, 6)).shape
        rushlight.Size([1, 8, 3, 3])
    """

    __constants__: tuple[str, ...] = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Takes one channel of each group in turn.

    Arguments:
        groups: how many; it divides the channels.

    Example:
        >>> nn.ChannelShuffle(2)(rl.arange(4.0).reshape(1, 4, 1, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    __constants__: tuple[str, ...] = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


live_in("channelshuffle", ChannelShuffle)
live_in("pixelshuffle", PixelShuffle, PixelUnshuffle)
