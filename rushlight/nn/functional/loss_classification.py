"""Losses of classifiers."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight.nn.functional._reduction import (
    _ENUM,
    check_floating,
    check_reduction,
    fused_loss,
    resolve,
)
from rushlight.nn.functional._reduction import reduce as _reduce

if TYPE_CHECKING:
    from rushlight.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "ctc_loss",
    "linear_cross_entropy", "multilabel_soft_margin_loss", "nll_loss",
]  # fmt: skip


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
             size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None,
             reduction: str = "mean") -> Tensor:  # fmt: skip
    """Minus the log-probability that the input gives to the target class.

    The input holds log-probabilities, as log_softmax gives them; cross_entropy does both steps.

    Arguments:
        input: (N, C) log-probabilities, or (N, C, d1, ...).
        target: int64 classes (N) or (N, d1, ...).
        weight: a factor per class; the mean is then weighted as well.
        size_average, reduce: old spellings of reduction.
        ignore_index: targets of this class do not count.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> log_probs = rl.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
        >>> F.nll_loss(log_probs, rl.tensor([1, 0]), reduction="none")
        tensor([0.2877, 0.6931])
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("nll_loss", reduction)
    return _C._nll_loss(input, target, weight, _ENUM[reduction], ignore_index, 0.0, False)


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                  size_average: bool | None = None, ignore_index: int = -100,
                  reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """The cross entropy between scores and the right classes: nll_loss of log_softmax.

    Pass scores as they come out of the last layer: softmax is part of the loss.

    Arguments:
        input: (N, C) scores, or (N, C, d1, ...); (C) for one sample.
        target: int64 classes (N) or (N, d1, ...), or probabilities of the shape of the input.
        weight: a factor per class.
        size_average, reduce: old spellings of reduction.
        ignore_index: targets of this class do not count.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        label_smoothing: how much of the probability is spread over all classes, from 0 to 1.

    Raises: IndexError for a class that is not among the C.

    Example:
        >>> scores = rl.tensor([[2.0, 0.0], [0.0, 0.0]])
        >>> F.cross_entropy(scores, rl.tensor([0, 1]))
        tensor(0.4100)
        >>> F.cross_entropy(scores, rl.tensor([0, -100]), reduction="none")
        tensor([0.1269, 0.0000])
        >>> F.cross_entropy(scores, rl.tensor([0, 1]), label_smoothing=0.1)
        tensor(0.4600)
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("cross_entropy", reduction)
    _check_smoothing("cross_entropy", label_smoothing)
    if input.dim() == 0:
        raise IndexError("cross_entropy: the input needs a dim of classes, got a 0-d tensor")
    if input.shape == target.shape:
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    return _C._nll_loss(
        input, target, weight, _ENUM[reduction], ignore_index, label_smoothing, True
    )


def _check_smoothing(name, label_smoothing):
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"{name}: label_smoothing must be between 0 and 1, got {label_smoothing}"
        )


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *,
                         linear_bias: Tensor | None = None, weight: Tensor | None = None,
                         reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0,
                         options: LinearCrossEntropyOptions | None = None) -> Tensor:  # fmt: skip
    """cross_entropy of linear(input, linear_weight, linear_bias), whose scores are never whole in
    memory: chunks of rows are computed one after the other, and so are their gradients. For large
    vocabularies.

    input is (N, in_features) or (in_features), linear_weight (C, in_features) or
    (C, d1, ..., dK, in_features), linear_bias as linear_weight without its last dim. With class
    probabilities as target, or where K > 0, the scores are whole. options say how large a chunk is.

    Arguments:
        input: (..., in_features).
        linear_weight: (C, in_features).
        target: int64 classes (...).
        linear_bias: (C).
        weight: a factor per class.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        ignore_index: targets of this class do not count; None is -100.
        label_smoothing: how much of the probability is spread over all classes.
        options: how to cut the work, a LinearCrossEntropyOptions.

    Example:
        >>> x, w = rl.tensor([[1.0, 0.0]]), rl.tensor([[2.0, 0.0], [0.0, 2.0]])
        >>> F.linear_cross_entropy(x, w, rl.tensor([0]), reduction="sum")
        tensor(0.1269)
    """
    check_reduction("linear_cross_entropy", reduction)
    _check_smoothing("linear_cross_entropy", label_smoothing)
    if input.dim() not in (1, 2):
        raise _C.ShapeError(
            "linear_cross_entropy: the input must be (N, in_features) or (in_features), got shape "
            f"{list(input.shape)}"
        )
    if linear_weight.dim() < 2:
        raise _C.ShapeError(
            "linear_cross_entropy: linear_weight must be (C, ..., in_features), got shape "
            f"{list(linear_weight.shape)}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise _C.ShapeError(
            f"linear_cross_entropy: input of shape {list(input.shape)} has {input.shape[-1]} "
            f"features, but linear_weight of shape {list(linear_weight.shape)} takes "
            f"in_features={linear_weight.shape[-1]}"
        )
    classes, *extent = linear_weight.shape[:-1]
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise _C.ShapeError(
            f"linear_cross_entropy: linear_bias must have shape {[classes, *extent]}, got "
            f"{list(linear_bias.shape)}"
        )
    if extent and input.dim() == 1:
        raise _C.ShapeError(
            f"linear_cross_entropy: linear_weight of shape {list(linear_weight.shape)} takes a "
            f"batch of inputs (N, in_features), got shape {list(input.shape)}"
        )
    scores_shape = (*input.shape[:-1], classes, *extent)
    probabilities = target.shape == scores_shape
    if probabilities and ignore_index is not None:
        raise RuntimeError(
            "linear_cross_entropy: ignore_index means nothing for class probabilities"
        )
    ignore_index = -100 if ignore_index is None else ignore_index
    if extent or probabilities:
        if options is not None:
            warnings.warn(
                "linear_cross_entropy: options have no effect where the target holds class "
                "probabilities or linear_weight has more than two dims",
                stacklevel=2,
            )
        flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
        flat = linear_weight.reshape(math.prod(extent, start=classes), input.shape[-1])
        scores = _C.linear(input, flat, flat_bias).reshape(scores_shape)
        return cross_entropy(scores, target, weight, None, ignore_index, None, reduction,
                             label_smoothing)  # fmt: skip
    rows = input.shape[0] if input.dim() == 2 else 1
    size = options._chunk_size(rows, input.shape[-1], classes, input.dtype) if options else 0
    labels = target
    if input.dim() == 1:
        if target.numel() != 1:
            raise _C.ShapeError(
                f"linear_cross_entropy: for an input of shape {list(input.shape)} the target of "
                f"class indices must have one element, got shape {list(target.shape)}"
            )
        input, labels = input.unsqueeze(0), target.reshape(1)
    loss = _C._linear_cross_entropy(
        input, linear_weight, labels, linear_bias, weight, _ENUM[reduction], ignore_index,
        label_smoothing, size,
    )  # fmt: skip
    return loss.reshape(target.shape) if reduction == "none" else loss


def _along(weight, like, dim):
    return weight.view(*[1] * dim, -1, *[1] * (like.dim() - dim - 1))


@autocast_policy(cpu="float32", cuda="float32")
def _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing):
    if not target.is_floating_point():
        raise _C.DTypeError(
            "cross_entropy: a target of the input's shape holds class probabilities and must be "
            f"floating point, got {target.dtype}"
        )
    if ignore_index >= 0:
        raise RuntimeError("cross_entropy: ignore_index means nothing for class probabilities")
    dim = 0 if input.dim() == 1 else 1
    classes = input.shape[dim]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise _C.ShapeError(
            f"cross_entropy: the weight must have one number for each of the {classes} classes, "
            f"got shape {list(weight.shape)}"
        )
    if label_smoothing > 0.0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    logs = input.log_softmax(dim)
    if weight is not None:
        target = target * _along(weight, logs, dim)
    loss = -(logs * target).sum(dim)
    if reduction == "mean":
        return (
            loss.sum() / max(input.numel() // max(classes, 1), 1) if loss.numel() else loss.mean()
        )
    return loss.sum() if reduction == "sum" else loss


@autocast_policy(cpu="float32", cuda="refused")
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                         size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> Tensor:  # fmt: skip
    """-(target log input + (1 - target) log(1 - input)); logarithms are at least -100.

    For scores use binary_cross_entropy_with_logits, which is exact where sigmoid has rounded to 0
    or 1.

    Arguments:
        input: probabilities, between 0 and 1.
        target: of the same shape, between 0 and 1.
        weight: a factor per element.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Raises: RuntimeError for inputs outside [0, 1].

    Example:
        >>> F.binary_cross_entropy(rl.tensor([0.5, 0.9]), rl.tensor([1.0, 1.0]), reduction="none")
        tensor([0.6931, 0.1054])
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("binary_cross_entropy", reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"binary_cross_entropy: target {list(target.shape)} and input {list(input.shape)} "
            "must have the same size"
        )
    check_floating("binary_cross_entropy", input)
    if target.dtype != input.dtype:
        raise _C.DTypeError(
            f"binary_cross_entropy: the target must be {input.dtype} as the input, got "
            f"{target.dtype}"
        )
    values = input.detach()
    # (On a GPU the loss itself looks, and raises when the program waits.)
    if values.numel() and values.device.type == "cpu":
        low, high = values.aminmax()
        if not (float(low) >= 0 and float(high) <= 1):
            raise RuntimeError(
                "binary_cross_entropy: the input must be probabilities between 0 and 1, got "
                f"{float(low)} to {float(high)}; for raw scores use "
                "binary_cross_entropy_with_logits"
            )
    if weight is None:
        loss = fused_loss(5, input, target, 0.0, reduction)
        if loss is not None:
            return loss
    was = input.dtype
    wide = _C.float32 if was in (_C.float16, _C.bfloat16) and not input.is_cuda else was
    loss = fused_loss(5, input.to(wide), target.to(wide), 0.0, "none").to(was)  # type: ignore[union-attr]
    if weight is not None:
        loss = loss * weight
    return _reduce("binary_cross_entropy", loss, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: bool | None = None, reduce: bool | None = None,
                                     reduction: str = "mean",
                                     pos_weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """binary_cross_entropy of sigmoid(input), computed without overflow.

    Arguments:
        input: scores of any range.
        target: of the same shape, between 0 and 1.
        weight: a factor per element.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        pos_weight: a factor for the positive part, per class: above 1 it favours finding them
            all.

    Example:
        >>> F.binary_cross_entropy_with_logits(rl.tensor([0.0, 200.0]), rl.tensor([1.0, 1.0]),
        ...     reduction="none")
        tensor([0.6931, 0.0000])
        >>> F.binary_cross_entropy_with_logits(rl.tensor([0.0]), rl.tensor([1.0]),
        ...     pos_weight=rl.tensor([3.0]))
        tensor(2.0794)
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("binary_cross_entropy_with_logits", reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: target {list(target.shape)} and input "
            f"{list(input.shape)} must have the same size"
        )
    if not target.is_floating_point():
        raise _C.DTypeError(
            f"binary_cross_entropy_with_logits: the target must be floating point, got "
            f"{target.dtype}: convert with target.float()"
        )
    if weight is None and pos_weight is None:
        loss = fused_loss(4, input, target, 0.0, reduction)
        if loss is not None:
            return loss
    log = _C.log_sigmoid(input)
    if pos_weight is not None:
        log = log * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * input - log
    if weight is not None:
        loss = loss * weight
    return _reduce("binary_cross_entropy_with_logits", loss, reduction)


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                size_average: bool | None = None, reduce: bool | None = None,
                                reduction: str = "mean") -> Tensor:  # fmt: skip
    """The mean over classes of the binary cross entropy of each, from raw scores.

    Arguments:
        input: (N, C) scores.
        target: (N, C) of 0 and 1.
        weight: a factor per class.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.multilabel_soft_margin_loss(rl.zeros(1, 2), rl.tensor([[1.0, 0.0]]), reduction="none")
        tensor([0.6931])
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("multilabel_soft_margin_loss", reduction)
    log = _C.log_sigmoid
    loss = -(target * log(input) + (1 - target) * log(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce("multilabel_soft_margin_loss", loss.mean(-1), reduction)


@autocast_policy(cpu="float32")
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
             blank: int = 0, reduction: str = "mean",
             zero_infinity: bool = False) -> Tensor:  # fmt: skip
    """Minus the log-probability of label sequences, summed over their alignments with time.

    Arguments:
        log_probs: (T, N, C) log-probabilities, or (T, C).
        targets: (N, S) labels, or all labels one after another.
        input_lengths: how many time steps of each sample count.
        target_lengths: how many labels of each sample count.
        blank: the class that stands for no label.
        reduction: 'mean' (default, each loss divided by its number of labels), 'sum' or 'none'.
        zero_infinity: loss 0 where no alignment is possible.

    Example:
        >>> log_probs = F.log_softmax(rl.zeros(4, 1, 3), dim=2)
        >>> F.ctc_loss(log_probs, rl.tensor([[1, 2]]), [4], [2], reduction="sum")
        tensor(1.6864)
    """
    if reduction not in _ENUM:
        raise ValueError(f"ctc_loss: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    return _C.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _ENUM[reduction],
        zero_infinity,
    )
