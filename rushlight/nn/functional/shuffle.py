"""Rearrangements between channels and space."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def _check_image(name, input, factor):
    if input.dim() < 3:
        raise _C.ShapeError(
            f"{name}: the input needs 3 or more dims (..., C, H, W), got {list(input.shape)}"
        )
    if factor <= 0:
        raise RuntimeError(f"{name}: the factor must be positive, got {factor}")


def pixel_shuffle(input: Tensor, upscale_factor: Any) -> Tensor:
    """(..., C r^2, H, W) as (..., C, H r, W r).

    Turns channels into resolution, for networks that enlarge pictures.

    Arguments:
        input: (..., C r^2, H, W).
        upscale_factor: r.

    Example:
        >>> F.pixel_shuffle(rl.arange(4.0).reshape(1, 4, 1, 1), 2)
        tensor([[[[0., 1.],
                  [2., 3.]]]])
    """
    r = upscale_factor
    _check_image("pixel_shuffle", input, r)
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise _C.ShapeError(
            f"pixel_shuffle: the {channels} channels must be divisible by the square of the "
            f"factor, {r * r}; the input has shape {list(input.shape)}"
        )
    out = channels // (r * r)
    parts = input.reshape(prod(lead), out, r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(*lead, out, height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: Any) -> Tensor:
    """(..., C, H r, W r) as (..., C r^2, H, W).

    Arguments:
        input: (..., C, H r, W r).
        downscale_factor: r.

    Example:
        >>> F.pixel_unshuffle(rl.zeros(1, 1, 4, 4), 2).shape
        rushlight.Size([1, 4, 2, 2])
    """
    r = downscale_factor
    _check_image("pixel_unshuffle", input, r)
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise _C.ShapeError(
            f"pixel_unshuffle: height {height} and width {width} must be divisible by {r}"
        )
    shape = (prod(lead), channels, height // r, r, width // r, r)
    parts = input.reshape(shape).permute(0, 1, 3, 5, 2, 4)
    return parts.reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Takes one channel of each group in turn.

    Arguments:
        input: (N, C, ...).
        groups: how many; it divides C.

    Example:
        >>> F.channel_shuffle(rl.arange(4.0).reshape(1, 4, 1), 2).flatten()
        tensor([0., 2., 1., 3.])
    """
    if input.dim() <= 2:
        raise _C.ShapeError(
            f"channel_shuffle: the input needs more than 2 dims, got {list(input.shape)}"
        )
    batch, channels, *rest = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"channel_shuffle: {channels} channels cannot be divided into {groups} groups"
        )
    parts = input.reshape(batch, groups, channels // groups, *rest)
    return parts.transpose(1, 2).reshape(input.shape)


native_channel_shuffle = channel_shuffle
