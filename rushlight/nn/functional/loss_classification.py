"""Losses of classifiers."""

from rushlight import _C
from rushlight._autocast import by_policy
from rushlight.nn.functional._reduction import check_floating, check_reduction, resolve
from rushlight.nn.functional._reduction import reduce as _reduce

__all__ = """binary_cross_entropy binary_cross_entropy_with_logits cross_entropy
multilabel_soft_margin_loss nll_loss""".split()


def _check_classes(name, input, target, weight):
    """Class indices fit scores of shape (C), (N, C) or (N, C, d1, ...)."""
    if input.dim() < 1:
        raise ValueError(f"{name}: the input needs a dim of classes, got a 0-d tensor")
    check_floating(name, input)
    if input.dim() > 1 and target.dim() and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"{name}: the batch sizes differ: {input.shape[0]} in the input {list(input.shape)}, "
            f"{target.shape[0]} in the target {list(target.shape)}"
        )
    expected = input.shape[:1] + input.shape[2:] if input.dim() > 1 else ()
    if tuple(target.shape) != tuple(expected) and not (input.dim() == 1 and target.numel() == 1):
        raise _C.ShapeError(
            f"{name}: for an input of shape {list(input.shape)} the target of class indices must "
            f"have shape {list(expected)}, got {list(target.shape)}"
        )
    if target.dtype not in (_C.int64, _C.uint8):
        raise _C.DTypeError(f"{name}: class indices must be int64 or uint8, got {target.dtype}")
    classes = input.shape[1] if input.dim() > 1 else input.shape[0]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise _C.ShapeError(
            f"{name}: the weight must have one number for each of the {classes} classes, got "
            f"shape {list(weight.shape)}"
        )
    return classes


def _read_target(name, target, classes, ignore_index):
    """(indices that may be gathered, mask of those that count or None when all do)."""
    target = target if target.dtype == _C.int64 else target.long()
    if target.numel() == 0 or target.device.type == "meta":
        return target, None
    low, high = target.aminmax()
    low, high = int(low), int(high)
    if not low <= ignore_index <= high:
        counts = None
    else:
        counts = target != ignore_index
        target = target.masked_fill(~counts, 0)
        low, high = (int(bound) for bound in target.aminmax())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise IndexError(f"{name}: target {wrong} is out of range for {classes} classes")
    return target, counts


@by_policy
def nll_loss(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
):
    """Minus the log-probability that the input gives to the target class."""
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("nll_loss", reduction)
    classes = _check_classes("nll_loss", input, target, weight)
    target, counts = _read_target("nll_loss", target, classes, ignore_index)
    return _nll(input, target, counts, weight, reduction)


def _nll(input, target, counts, weight, reduction):
    if input.dim() == 1:
        picked = input.gather(0, target.view(1)).view(target.shape)
    else:
        picked = input.gather(1, target.unsqueeze(1)).squeeze(1)
    if weight is None and counts is None:
        if reduction == "mean":
            return picked.mean().neg()
        return picked.sum().neg() if reduction == "sum" else picked.neg()
    factors = _factors(picked, target, counts, weight)
    # Where nothing counts, also an infinite score must not.
    loss = -picked * factors if counts is None else -picked.masked_fill(~counts, 0) * factors
    if reduction == "none":
        return loss
    return loss.sum() / factors.sum() if reduction == "mean" else loss.sum()


def _factors(like, target, counts, weight):
    """The weight of each position: that of its class, zero where it is ignored."""
    if weight is None:
        return counts.to(like.dtype)
    factors = weight.index_select(0, target.reshape(-1)).view(target.shape)
    return factors if counts is None else factors.masked_fill(~counts, 0)


@by_policy
def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """nll_loss of log_softmax; the target holds class indices, or a probability for each class."""
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("cross_entropy", reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}"
        )
    dim = 0 if input.dim() == 1 else 1
    if input.dim() == 0:
        raise IndexError("cross_entropy: the input needs a dim of classes, got a 0-d tensor")
    if input.shape == target.shape:
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    classes = _check_classes("cross_entropy", input, target, weight)
    target, counts = _read_target("cross_entropy", target, classes, ignore_index)
    logs = input.log_softmax(dim)
    loss = _nll(logs, target, counts, weight, reduction)
    if label_smoothing == 0.0:
        return loss
    weighted = logs if weight is None else logs * _along(weight, logs, dim)
    smooth = -weighted.sum(dim)
    if counts is not None:
        smooth = smooth.masked_fill(~counts, 0)
    if reduction == "sum":
        smooth = smooth.sum()
    elif reduction == "mean":
        if weight is None and counts is None:
            smooth = smooth.mean()
        else:
            smooth = smooth.sum() / _factors(smooth, target, counts, weight).sum()
    return (1 - label_smoothing) * loss + (label_smoothing / classes) * smooth


def _along(weight, like, dim):
    return weight.view(*[1] * dim, -1, *[1] * (like.dim() - dim - 1))


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


@by_policy
def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """-(target log input + (1 - target) log(1 - input)); logarithms are at least -100."""
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
    if values.numel() and values.device.type != "meta":
        low, high = values.aminmax()
        if not (float(low) >= 0 and float(high) <= 1):
            raise RuntimeError(
                "binary_cross_entropy: the input must be probabilities between 0 and 1, got "
                f"{float(low)} to {float(high)}; for raw scores use "
                "binary_cross_entropy_with_logits"
            )
    loss = -(target * _floored_log(input) + (1 - target) * _floored_log(1 - input))
    if weight is not None:
        loss = loss * weight
    return _reduce("binary_cross_entropy", loss, reduction)


def _floored_log(x):
    """log x, but -100 below exp(-100), with a gradient of zero there."""
    positive = x > 0
    return x.masked_fill(~positive, 1).log().clamp(min=-100).masked_fill(~positive, -100)


@by_policy
def binary_cross_entropy_with_logits(
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
    pos_weight=None,
):
    """binary_cross_entropy of sigmoid(input), computed without overflow."""
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
            f"{target.dtype}"
        )
    log = _C.log_sigmoid(input)
    if pos_weight is not None:
        log = log * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * input - log
    if weight is not None:
        loss = loss * weight
    return _reduce("binary_cross_entropy_with_logits", loss, reduction)


def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The mean over classes of the binary cross entropy of each, from raw scores."""
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("multilabel_soft_margin_loss", reduction)
    log = _C.log_sigmoid
    loss = -(target * log(input) + (1 - target) * log(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce("multilabel_soft_margin_loss", loss.mean(-1), reduction)
