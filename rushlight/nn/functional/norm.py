"""Normalisations: mean 0 and variance 1 over some dims.

The work is done by the fused ops of csrc/ops/nn/normalization.cpp.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn.functional.padding import pad

__all__ = ["batch_norm", "group_norm", "instance_norm", "local_response_norm"]


def _check_count(name, count, what, input):
    if count == 1:
        raise ValueError(
            f"{name}: expected more than 1 {what} when training, got an input of shape "
            f"{list(input.shape)}"
        )


def _points(input):
    """Elements of one channel of one sample."""
    count = 1
    for size in input.shape[2:]:
        count *= size
    return count


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
               weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Normalises each channel over the batch and all that follows the channel dim.

    When training, by the batch's own mean and variance, which move the running ones; else by these.

    Arguments:
        input: (N, C, ...).
        running_mean, running_var: moments per channel, used when not training and updated when
            training.
        weight, bias: factor and summand per channel; None is 1 and 0.
        training: normalise by the moments of this batch.
        momentum: how much of them goes into the running ones.
        eps: a small number that keeps a divisor away from zero.

    Raises: ValueError when training on a single value per channel, or with eps of 0 or less.

    Example:
        >>> x = rl.tensor([[1.0], [3.0]])
        >>> F.batch_norm(x, rl.tensor([1.0]), rl.tensor([4.0]))
        tensor([[0.0000],
                [1.0000]])
        >>> F.batch_norm(x, None, None, training=True)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    if input.dim() == 1 and input.numel() == 0:
        return input.clone()  # there is nothing to normalise
    if training:
        _check_batch(input, eps)
    return _C.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def _check_batch(input, eps):
    """What batch_norm refuses while training."""
    if not eps > 0:
        raise ValueError(f"batch_norm: eps must be above 0 while training, got {eps}")
    if input.dim() >= 2:
        _check_count("batch_norm", input.shape[0] * _points(input), "value per channel", input)


def batch_norm_counted(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor,
                       bias: Tensor | None, batches: Any, momentum: Any,
                       eps: float) -> Tensor:  # fmt: skip
    """batch_norm in training that counts the batch as well, in the same pass."""
    _check_batch(input, eps)
    return _C._batch_norm_counted(
        input, weight, bias, running_mean, running_var, batches, momentum, eps
    )


def instance_norm(input: Tensor, running_mean: Tensor | None = None,
                  running_var: Tensor | None = None, weight: Tensor | None = None,
                  bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
                  eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Normalises each channel of each sample.

    Arguments:
        input: (N, C, ...).
        running_mean, running_var: moments per channel, updated where given.
        weight, bias: factor and summand per channel; None is 1 and 0.
        use_input_stats: normalise by the moments of each sample, not by the running ones.
        momentum: how much of them goes into the running ones.
        eps: a small number that keeps a divisor away from zero.

    Example:
        >>> F.instance_norm(rl.tensor([[[1.0, 3.0], [0.0, 10.0]]]), eps=0.0)
        tensor([[[-1.,  1.],
                 [-1.,  1.]]])
    """
    if use_input_stats and input.dim() >= 2:
        _check_count("instance_norm", _points(input), "spatial element", input)
    return _C.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None,
               bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Normalises each sample over groups of channels and all that follows.

    Arguments:
        input: (N, C, ...).
        num_groups: how many groups of channels; it divides C.
        weight, bias: factor and summand per channel; None is 1 and 0.
        eps: a small number that keeps a divisor away from zero.

    Example:
        >>> F.group_norm(rl.tensor([[[1.0], [3.0], [0.0], [10.0]]]), 2, eps=0.0).flatten()
        tensor([-1.,  1., -1.,  1.])
    """
    if input.dim() >= 2 and num_groups > 0:
        count = input.shape[0] * input.shape[1] // num_groups * _points(input)
        _check_count("group_norm", count, "value per channel", input)
    return _C.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels) ^ beta.

    Arguments:
        input: (N, C, ...).
        size: over how many neighbouring channels.
        alpha, beta, k: as in the formula.

    Example:
        >>> F.local_response_norm(rl.ones(1, 3, 1), size=3, alpha=1.0, beta=1.0)
        tensor([[[0.6000],
                 [0.5000],
                 [0.6000]]])
    """
    dims = input.dim()
    if dims < 3:
        raise ValueError(
            f"local_response_norm: expects an input of 3 or more dims, got {list(input.shape)}"
        )
    if input.numel() == 0:
        return input
    square = (input * input).movedim(1, -1)
    square = pad(square, (size // 2, (size - 1) // 2))
    windows = square.unfold(-1, size, 1)
    exact = not windows.is_floating_point() and not windows.is_complex()
    mean = windows.sum(-1).div(size, rounding_mode="trunc") if exact else windows.mean(-1)
    mean = mean.movedim(-1, 1)
    return input / (mean * alpha + k) ** beta
