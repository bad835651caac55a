"""Losses that compare numbers with numbers."""

from __future__ import annotations

import math
import warnings

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.functional import broadcast_tensors
from rushlight.nn.functional._reduction import (
    check_floating,
    check_reduction,
    fused_loss,
    reduce,
    resolve,
)

__all__ = [
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss",
    "smooth_l1_loss",
]  # fmt: skip


def _same_size(name, input, target):
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}: target must be a tensor, got {type(target).__name__}")
    if target.shape == input.shape:
        return input, target
    warnings.warn(
        f"{name}: the sizes of target {list(target.shape)} and input {list(input.shape)} differ; "
        "they are broadcast against each other, which is seldom what is meant",
        stacklevel=3,
    )
    return broadcast_tensors(input, target)


def _weighted(name, loss, weight, reduction, by_weight=True):
    if weight is None:
        return reduce(name, loss, reduction)
    if weight.shape != loss.shape:
        raise ValueError(
            f"{name}: the weight must have the size of the input, {list(loss.shape)}, got "
            f"{list(weight.shape)}"
        )
    loss = loss * weight
    if reduction == "mean" and by_weight:
        return loss.sum() / weight.sum()
    return reduce(name, loss, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
            reduce: bool | None = None, reduction: str = "mean",
            weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """|input - target|.

    Arguments:
        input: what was predicted.
        target: what it should be; of the same shape, or a warning says that they broadcast.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        weight: a factor per element.

    Example:
        >>> F.l1_loss(rl.tensor([1.0, 5.0]), rl.tensor([1.0, 2.0]), reduction="sum")
        tensor(3.)
    """
    reduction = resolve(size_average, reduce, reduction)
    input, target = _same_size("l1_loss", input, target)
    if weight is None and (loss := fused_loss(0, input, target, 0.0, reduction)) is not None:
        return loss
    return _weighted("l1_loss", (input - target).abs(), weight, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
             reduce: bool | None = None, reduction: str = "mean",
             weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """(input - target)^2.

    Arguments:
        input: what was predicted.
        target: what it should be; of the same shape, or a warning says that they broadcast.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        weight: a factor per element.

    Example:
        >>> F.mse_loss(rl.tensor([1.0, 5.0]), rl.tensor([1.0, 2.0]))
        tensor(4.5000)
        >>> F.mse_loss(rl.tensor([1.0, 5.0]), rl.tensor([1.0, 2.0]), reduction="none")
        tensor([0., 9.])
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("mse_loss", reduction)
    input, target = _same_size("mse_loss", input, target)
    if not target.is_floating_point():  # which makes integers floating
        check_floating("mse_loss", input)
    if weight is None and (loss := fused_loss(1, input, target, 0.0, reduction)) is not None:
        return loss
    return _weighted("mse_loss", (input - target).square(), weight, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
                   reduce: bool | None = None, reduction: str = "mean",
                   beta: float = 1.0) -> Tensor:  # fmt: skip
    """Squares below beta, absolute values above, joined smoothly.

    0.5 d^2 / beta where the difference d is below beta, |d| - 0.5 beta above: outliers count less
    than in mse_loss.

    Arguments:
        input: what was predicted.
        target: what the input should be, of the same shape.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        beta: where the two parts meet; 0 is l1_loss.

    Example:
        >>> F.smooth_l1_loss(rl.tensor([0.5, 5.0]), rl.zeros(2), reduction="none", beta=2.0)
        tensor([0.0625, 4.0000])
    """
    reduction = resolve(size_average, reduce, reduction)
    input, target = _same_size("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    if beta > 0 and (loss := fused_loss(2, input, target, beta, reduction)) is not None:
        return loss
    distance = (input - target).abs()
    if beta == 0:
        return _weighted("smooth_l1_loss", distance, None, reduction)
    near = distance.clamp(max=beta)
    # near^2 / 2 beta below; above, near is beta and the rest is added as it is.
    loss = near * near * (0.5 / beta) + (distance - near)
    return _weighted("smooth_l1_loss", loss, None, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """delta times smooth_l1_loss with beta = delta.

    Arguments:
        input: what was predicted.
        target: what the input should be, of the same shape.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        delta: where squares turn into absolute values.
        weight: a factor per element.

    Example:
        >>> F.huber_loss(rl.tensor([0.5, 5.0]), rl.zeros(2), reduction="none", delta=2.0)
        tensor([0.1250, 8.0000])
    """
    input, target = _same_size("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive, got {delta}")
    check_floating("huber_loss", input)  # the loss has its dtype
    if weight is None and (loss := fused_loss(3, input, target, delta, reduction)) is not None:
        return loss
    distance = (input - target).abs()
    near = distance.clamp(max=delta)
    loss = near * near * 0.5 + (distance - near) * delta
    if input.is_floating_point():
        loss = loss.to(input.dtype)
    return _weighted("huber_loss", loss, weight, reduction, by_weight=False)


@autocast_policy(cpu="float32", cuda="float32")
def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None,
           reduce: bool | None = None, reduction: str = "mean",
           log_target: bool = False) -> Tensor:  # fmt: skip
    """target * (log target - input): input holds log-probabilities, target too if log_target.

    The mean over all elements is what 'mean' gives; the divergence itself is 'batchmean', the sum
    divided by the size of the batch.

    Arguments:
        input: log-probabilities.
        target: probabilities of the same shape.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'batchmean', 'sum' or 'none'.
        log_target: the target holds log-probabilities, too.

    Example:
        >>> p, q = rl.tensor([[0.5, 0.5]]), rl.tensor([[0.9, 0.1]])
        >>> F.kl_div(q.log(), p, reduction="batchmean")
        tensor(0.5108)
    """
    if size_average is not None or reduce is not None:
        reduction = resolve(size_average, reduce, reduction)
    elif reduction == "mean":
        warnings.warn(
            "kl_div: reduction 'mean' divides by all elements; 'batchmean', by the batch size, is "
            "the divergence of the mathematicians",
            stacklevel=2,
        )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = _C.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    return _reduce("kl_div", loss, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8,
                     reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """-log of Poisson's probability of target at rate input (its logarithm if log_input).

    Arguments:
        input: the rate, or its logarithm.
        target: counts.
        log_input: the input is a logarithm.
        full: add Stirling's approximation of log(target!).
        size_average, reduce: old spellings of reduction.
        eps: added to the rate before the logarithm, where log_input is False.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.poisson_nll_loss(rl.tensor([2.0]), rl.tensor([3.0]), log_input=False)
        tensor(-0.0794)
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("poisson_nll_loss", reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduce("poisson_nll_loss", loss, reduction)


def _differs_in_one_dim(shape, other):
    """Is `other` the shape but for one dim, in which it has a single element?"""
    sizes = [(n, m) for n, m in zip(shape, other, strict=False) if n != m]
    return len(shape) == len(other) and len(sizes) == 1 and sizes[0][1] == 1


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False,
                      eps: float = 1e-6, reduction: str = "mean") -> Tensor:  # fmt: skip
    """-log of the normal density of target at mean input and variance var (at least eps).

    Arguments:
        input: the means.
        target: what was observed.
        var: the variances, of the same shape, or with a last dim of size 1 or without it.
        full: add the constant log(2 pi) / 2.
        eps: the smallest variance.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.gaussian_nll_loss(rl.tensor([0.0]), rl.tensor([2.0]), rl.tensor([4.0]), full=True)
        tensor(2.1121)
    """
    if isinstance(var, Tensor):
        if var.shape != input.shape:
            if input.dim() and input.shape[:-1] == var.shape:
                var = var.unsqueeze(-1)
            elif not _differs_in_one_dim(input.shape, var.shape):
                raise ValueError(
                    f"gaussian_nll_loss: var of shape {list(var.shape)} does not fit the input of "
                    f"shape {list(input.shape)}"
                )
        negative = bool((var.detach() < 0).any())
    else:
        negative = var < 0
        var = _C.full((), float(var), dtype=input.dtype, device=input.device).expand_as(input)
    if negative:
        raise ValueError("gaussian_nll_loss: a variance must not be negative")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"gaussian_nll_loss: unknown reduction {reduction!r}")
    with no_grad():  # the floor is not part of the function
        lift = (eps - var).clamp(min=0)
    var = var + lift
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce("gaussian_nll_loss", loss, reduction)


_reduce = reduce  # the losses have an argument of that name
