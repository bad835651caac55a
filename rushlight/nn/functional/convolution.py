"""Convolutions: the ops themselves, see csrc/ops/nn/convolution.cpp."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["conv_tbc"]


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of (time, batch, channels), with a weight (width, in, out).

    Arguments:
        input: (time, batch, channels).
        weight: (width, in_channels, out_channels).
        bias: (out_channels).
        pad: zeros at both ends of time.

    Example:
        >>> F.conv_tbc(rl.ones(5, 2, 3), rl.ones(3, 3, 4), rl.zeros(4), pad=1).shape
        rushlight.Size([5, 2, 4])
    """
    if input.dim() != 3 or weight.dim() != 3 or bias.dim() != 1:
        raise _C.ShapeError(
            "conv_tbc: expects an input and a weight of 3 dims and a bias of 1, got "
            f"{list(input.shape)}, {list(weight.shape)} and {list(bias.shape)}"
        )
    out = _C.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
    return out.permute(2, 0, 1)
