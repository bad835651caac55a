"""Batch normalisation whose statistics are those of several processes' batches.

One collective per direction: forward gathers each process's mean, sum of squared distances from it
and count, which combine without the cancellation of E[x^2] - E[x]^2; backward adds two sums.
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import distributed
from rushlight.autograd import Function

__all__ = ["Normalised"]


def _dims(x):
    return [0, *range(2, x.dim())]


def _channel(values, x):
    """A value per channel, to be used with x."""
    return values.view(1, -1, *[1] * (x.dim() - 2))


def _wide(x):
    half = x.dtype in (rushlight.float16, rushlight.bfloat16)
    return x.float() if half else x


def _own_statistics(x):
    """Mean, sum of squared distances from it, count; zeros for an empty batch."""
    channels = x.shape[1]
    count = x.numel() // channels if channels else 0
    if count == 0:
        return rushlight.zeros(2 * channels + 1, dtype=x.dtype, device=x.device)
    mean = x.mean(_dims(x))
    spread = (x - _channel(mean, x)).square().sum(_dims(x))
    number = rushlight.full((1,), float(count), dtype=x.dtype, device=x.device)
    return rushlight.cat([mean, spread, number])


class Normalised(Function):
    """(x - mean) / sqrt(var + eps) * weight + bias."""

    @staticmethod
    def forward(
        ctx: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
        eps: float, factor: float, group: Any,
    ) -> Any:  # fmt: skip
        x = _wide(input)
        mine = _own_statistics(x)
        every = rushlight.empty(group.size(), mine.numel(), dtype=mine.dtype, device=mine.device)
        distributed.all_gather_into_tensor(every, mine, group)
        channels = x.shape[1]
        means, spreads, counts = every.split([channels, channels, 1], 1)
        total = float(counts.sum())
        if total <= 1:
            raise ValueError(
                "SyncBatchNorm: Expected more than 1 value per channel when training, and the "
                f"processes have {int(total)} together"
            )
        mean = (means * counts).sum(0) / total
        spread = spreads.sum(0) + (counts * (means - mean).square()).sum(0)
        scale = (spread / total + eps).rsqrt()
        if running_mean is not None:
            running_mean.mul_(1 - factor).add_(mean.to(running_mean.dtype), alpha=factor)
            unbiased = (spread / (total - 1)).to(running_var.dtype)
            running_var.mul_(1 - factor).add_(unbiased, alpha=factor)
        ctx.save_for_backward(input, weight, mean, scale)
        ctx.total, ctx.group, ctx.has_bias = total, group, bias is not None
        out = (x - _channel(mean, x)) * _channel(scale, x)
        if weight is not None:
            out = out * _channel(_wide(weight), x)
        if bias is not None:
            out = out + _channel(_wide(bias), x)
        return out.to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, weight, mean, scale = ctx.saved_tensors
        g, x = _wide(grad), _wide(input)
        normal = (x - _channel(mean, x)) * _channel(scale, x)
        sums = rushlight.cat([g.sum(_dims(g)), (g * normal).sum(_dims(g))])
        own = sums.clone()
        distributed.all_reduce(sums, group=ctx.group)
        all_g, all_gn = (sums / ctx.total).chunk(2)
        by = scale if weight is None else scale * _wide(weight)
        dx = (g - _channel(all_g, g) - normal * _channel(all_gn, g)) * _channel(by, g)
        grad_bias, grad_weight = own.chunk(2)
        return (
            dx.to(input.dtype),
            None if weight is None else grad_weight.to(weight.dtype),
            grad_bias.to(grad.dtype if weight is None else weight.dtype) if ctx.has_bias else None,
            *[None] * 5,
        )
