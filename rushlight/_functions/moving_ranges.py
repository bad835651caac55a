"""Fake quantization whose steps follow the ranges that were seen."""

from __future__ import annotations

from rushlight import _C, Tensor
from rushlight._functions.quantization import (
    choose_ranges,
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from rushlight.autograd import no_grad

__all__ = ["fused_moving_avg_obs_fake_quant"]

_NAME = "fused_moving_avg_obs_fake_quant"


def _begin(buffer: Tensor, size: int, value: float) -> None:
    """Gives a buffer that is empty yet a number per channel."""
    if buffer.numel() == 0:
        buffer.resize_(size).fill_(value)
    elif buffer.shape != (size,):
        raise RuntimeError(f"{_NAME}: a buffer has shape {tuple(buffer.shape)}, expected ({size},)")


def _observe(
    x: Tensor, running_min: Tensor, running_max: Tensor, share: float, by_row: bool
) -> None:
    if by_row:
        low, high = x.flatten(1).aminmax(dim=1) if x.dim() > 1 else (x, x)
    else:
        low, high = x.aminmax()
    for running, seen in ((running_min, low), (running_max, high)):
        moved = running + share * (seen - running)
        running.copy_(_C.where(running.isinf(), seen, moved))


def fused_moving_avg_obs_fake_quant(
    input: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Tensor:
    """input rounded to steps for the moving averages of its smallest and largest numbers.

    Arguments:
        input: a floating tensor.
        observer_on: 1: running_min and running_max move towards the range of input.
        fake_quant_on: 1: scale and zero_point are worked out from them, and input is rounded.
        running_min, running_max: the averages; infinite ones begin with what is seen. They are
            changed in place, as are scale (float32) and zero_point (int32).
        scale, zero_point: the steps.
        averaging_const: how far the averages move.
        quant_min, quant_max: the first and the last step.
        ch_axis: the dim of the channels.
        per_row_fake_quant: one range for each channel. Buffers may be empty at first.
        symmetric_quant: 0 lies in the middle where numbers have both signs.

    Example:
        >>> on, low, high = rl.tensor([1]), rl.tensor([rl.inf]), rl.tensor([-rl.inf])
        >>> scale, zero = rl.ones(1), rl.zeros(1, dtype=rl.int32)
        >>> x = rl.tensor([-1.0, 0.3, 2.0])
        >>> rl.fused_moving_avg_obs_fake_quant(x, on, on, low, high, scale, zero, 0.1, 0, 3, 0)
        tensor([-1.,  0.,  2.])
        >>> low, high, scale, zero.tolist()
        (tensor([-1.]), tensor([2.]), tensor([1.]), [1])

        A range for each row:

        >>> x = rl.tensor([[0.0, 1.0, 2.1], [0.0, -4.0, 2.0]])
        >>> low, high, scale, zero = rl.empty(0), rl.empty(0), rl.ones(2), zero.expand(2).clone()
        >>> rl.fused_moving_avg_obs_fake_quant(
        ...     x, on, on, low, high, scale, zero, 0.1, 0, 3, 0, per_row_fake_quant=True
        ... )
        tensor([[ 0.0000,  0.7000,  2.1000],
                [ 0.0000, -4.0000,  2.0000]])
    """
    if not input.is_floating_point():
        raise NotImplementedError(f"{_NAME}: expects a floating tensor, got {input.dtype}")
    if not 0 <= ch_axis < max(input.dim(), 1):
        raise RuntimeError(f"{_NAME}: ch_axis must be a dim of {tuple(input.shape)}, got {ch_axis}")
    if quant_min >= quant_max:
        raise RuntimeError(f"{_NAME}: quant_min must be below quant_max: {quant_min}, {quant_max}")
    observes, rounds = (int(flag.item()) != 0 for flag in (observer_on, fake_quant_on))
    if observes and per_row_fake_quant and ch_axis != 0:
        raise RuntimeError(f"{_NAME}: channels are observed along dim 0 only, ch_axis is {ch_axis}")
    with no_grad():
        if per_row_fake_quant:
            size = input.shape[ch_axis]
            _begin(running_min, size, float("inf"))
            _begin(running_max, size, float("-inf"))
            _begin(scale, size, 1.0)
            _begin(zero_point, size, 0)
        if observes and input.numel():
            _observe(input.detach(), running_min, running_max, averaging_const, per_row_fake_quant)
        if rounds:
            steps = choose_ranges(running_min, running_max, quant_min, quant_max, symmetric_quant)
            for buffer, found in zip((scale, zero_point), steps, strict=True):
                buffer.copy_(found.reshape(buffer.shape))
    if not rounds:
        return input.clone()
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine(
            input, scale, zero_point, ch_axis, quant_min, quant_max
        )
    return fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)
