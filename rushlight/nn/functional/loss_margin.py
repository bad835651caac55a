"""Losses that ask for a distance between scores."""

from __future__ import annotations

from collections.abc import Callable

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight.nn.functional._reduction import check_floating, check_reduction, resolve
from rushlight.nn.functional._reduction import reduce as _reduce
from rushlight.nn.functional.linear import pairwise_distance

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


@autocast_policy(cpu="float32", cuda="float32")
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0,
                         size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> Tensor:  # fmt: skip
    """x where the target is 1, max(0, margin - x) where it is -1.

    Arguments:
        input: distances.
        target: 1 for pairs that belong together, -1 for others.
        margin: how far those should be apart.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.hinge_embedding_loss(rl.tensor([0.5, 0.5]), rl.tensor([1.0, -1.0]), margin=2.0,
        ...     reduction="none")
        tensor([0.5000, 1.5000])
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("hinge_embedding_loss", reduction)
    far = (margin - input).clamp(min=0).masked_fill(target == 1, 0)
    near = input.masked_fill(target == -1, 0)
    return _reduce("hinge_embedding_loss", far + near, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                          size_average: bool | None = None, reduce: bool | None = None,
                          reduction: str = "mean") -> Tensor:  # fmt: skip
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Arguments:
        input1, input2: (N, D) vectors, or (D).
        target: (N): 1 for vectors that should agree, -1 for others.
        margin: how similar those may be.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> a, b = rl.tensor([[1.0, 0.0]]), rl.tensor([[0.0, 1.0]])
        >>> F.cosine_embedding_loss(a, b, rl.tensor([1.0]), reduction="sum")
        tensor(1.)
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("cosine_embedding_loss", reduction)
    if target.dim() > 1:
        raise _C.ShapeError(
            f"cosine_embedding_loss: the target must have 0 or 1 dims, got {list(target.shape)}"
        )
    if target.dim() == 1 and (input1.dim() != 2 or input2.dim() != 2):
        raise _C.ShapeError(
            "cosine_embedding_loss: a 1-d target goes with 2-d inputs, got "
            f"{list(input1.shape)} and {list(input2.shape)}"
        )
    if target.dim() == 0 and (input1.dim() != 1 or input2.dim() != 1):
        raise _C.ShapeError(
            "cosine_embedding_loss: a 0-d target goes with 1-d inputs, got "
            f"{list(input1.shape)} and {list(input2.shape)}"
        )
    tiny = 1e-12
    lengths = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = (input1 * input2).sum(-1) / lengths.sqrt()
    near = (1 - cosine).masked_fill(target != 1, 0)
    far = (cosine - margin).clamp(min=0).masked_fill(target != -1, 0)
    return _reduce("cosine_embedding_loss", near + far, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                        size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:  # fmt: skip
    """max(0, -target * (input1 - input2) + margin).

    Arguments:
        input1, input2: scores of two things.
        target: 1 if the first should be ranked higher, -1 if the second.
        margin: by how much.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.margin_ranking_loss(rl.tensor([1.0]), rl.tensor([3.0]), rl.tensor([1.0]), margin=0.5)
        tensor(2.5000)
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("margin_ranking_loss", reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise _C.ShapeError(
            "margin_ranking_loss: both inputs and the target must have the same number of dims, "
            f"got {list(input1.shape)}, {list(input2.shape)} and {list(target.shape)}"
        )
    loss = (-target * (input1 - input2) + margin).clamp(min=0)
    return _reduce("margin_ranking_loss", loss, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
                     reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """log(1 + exp(-target * x)).

    Arguments:
        input: scores.
        target: 1 or -1.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.soft_margin_loss(rl.tensor([0.0, 2.0]), rl.tensor([1.0, 1.0]), reduction="none")
        tensor([0.6931, 0.1269])
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("soft_margin_loss", reduction)
    check_floating("soft_margin_loss", input)  # the loss has its dtype
    loss = -_C.log_sigmoid(target * input)
    return _reduce("soft_margin_loss", loss.to(input.dtype), reduction)


@autocast_policy(cpu="float32", cuda="float32")
def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0,
                      weight: Tensor | None = None, size_average: bool | None = None,
                      reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Mean over classes j of max(0, margin - x[y] + x[j])^p, y the target, j not y.

    Arguments:
        input: (N, C) scores.
        target: (N) classes.
        p: 1 or 2.
        margin: by how much the right class should win.
        weight: a factor per class.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.multi_margin_loss(rl.tensor([[0.1, 0.9]]), rl.tensor([0]), margin=1.0, p=2)
        tensor(1.6200)
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("multi_margin_loss", reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    single = input.dim() < 2
    scores = input.reshape(1, -1) if single else input
    labels = target.reshape(-1)
    if scores.dim() != 2 or labels.shape[0] != scores.shape[0]:
        raise _C.ShapeError(
            f"multi_margin_loss: expects scores (N, C) and targets (N), got {list(input.shape)} "
            f"and {list(target.shape)}"
        )
    classes = scores.shape[1]
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"multi_margin_loss: the weight must have 1 dim, got {list(weight.shape)}")
    if weight is not None and weight.shape[0] != classes:
        raise _C.ShapeError(
            f"multi_margin_loss: the weight must have {classes} numbers, got {weight.shape[0]}"
        )
    # (On a GPU, gather finds bad ones, and raises when the program waits.)
    if (
        labels.numel()
        and not labels.is_cuda
        and (int(labels.min()) < 0 or int(labels.max()) >= classes)
    ):
        raise _C.RangeError(f"multi_margin_loss: a target is out of range for {classes} classes")
    column = labels.unsqueeze(1)
    gap = (margin - scores.gather(1, column) + scores).clamp(min=0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * weight.index_select(0, labels).unsqueeze(1)
    loss = gap.scatter(1, column, 0.0).sum(1) / classes
    return _reduce("multi_margin_loss", loss[0] if single else loss, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
                           reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:  # fmt: skip
    """Sum over targets j and other classes i of max(0, 1 - (x[j] - x[i])), by the class count.

    A row of the target lists classes; the first -1 ends it.

    Arguments:
        input: (N, C) scores.
        target: (N, C) classes of each sample; -1 ends the list.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> F.multilabel_margin_loss(rl.tensor([[0.1, 0.9]]), rl.tensor([[1, -1]]), reduction="sum")
        tensor(0.1000)
    """
    reduction = resolve(size_average, reduce, reduction)
    check_reduction("multilabel_margin_loss", reduction)
    if input.shape != target.shape or input.dim() > 2 or 0 in input.shape[-1:]:
        raise _C.ShapeError(
            "multilabel_margin_loss: expects scores and targets of one shape (C) or (N, C) with at "
            "least one class, got "
            f"{list(input.shape)} and {list(target.shape)}"
        )
    single = input.dim() < 2
    scores = input.reshape(1, -1) if single else input
    labels = target.reshape(1, -1) if single else target
    classes = scores.shape[1]
    if (
        labels.numel()
        and not labels.is_cuda
        and (int(labels.min()) < -1 or int(labels.max()) >= classes)
    ):
        raise _C.RangeError(
            f"multilabel_margin_loss: a target is out of range for {classes} classes"
        )
    listed = (labels >= 0).to(scores.dtype).cumprod(1)
    safe = labels.clamp(min=0)
    is_target = _C.zeros_like(scores, requires_grad=False).scatter_add_(1, safe, listed)
    others = (is_target == 0).to(scores.dtype)
    gaps = (1 - scores.gather(1, safe).unsqueeze(2) + scores.unsqueeze(1)).clamp(min=0)
    loss = (gaps * listed.unsqueeze(2) * others.unsqueeze(1)).sum((1, 2)) / classes
    return _reduce("multilabel_margin_loss", loss[0] if single else loss, reduction)


@autocast_policy(cpu="float32", cuda="float32")
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0,
                        p: float = 2, eps: float = 1e-6, swap: bool = False,
                        size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:  # fmt: skip
    """max(0, |anchor - positive| - |anchor - negative| + margin), in p-norms.

    Pulls the anchor towards the positive sample and away from the negative one.

    Arguments:
        anchor, positive, negative: (N, D) vectors.
        margin: by how much the negative should be farther away.
        p: which norm measures distances.
        eps: added to differences, so that gradients exist at zero.
        swap: take the negative's distance to the positive where that is smaller.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> a, p, n = rl.tensor([[0.0]]), rl.tensor([[1.0]]), rl.tensor([[1.5]])
        >>> F.triplet_margin_loss(a, p, n, margin=2.0)
        tensor(1.5000)
    """
    reduction = resolve(size_average, reduce, reduction)
    return _triplet(
        "triplet_margin_loss",
        lambda a, b: pairwise_distance(a, b, p, eps),
        (anchor, positive, negative),
        margin,
        swap,
        reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with another distance.

    Arguments:
        anchor, positive, negative: tensors that the distance takes.
        distance_function: of two tensors; None is pairwise_distance.
        margin: by how much the negative should be farther away.
        swap: take the negative's distance to the positive where that is smaller.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> a, p, n = rl.tensor([[0.0]]), rl.tensor([[1.0]]), rl.tensor([[1.5]])
        >>> def distance(x, y): return (x - y).abs().amax(dim=-1)
        >>> F.triplet_margin_with_distance_loss(a, p, n, distance_function=distance)
        tensor(0.5000)
    """
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(
        "triplet_margin_with_distance_loss",
        distance,
        (anchor, positive, negative),
        margin,
        swap,
        reduction,
    )


def _triplet(name, distance, triple, margin, swap, reduction):
    check_reduction(name, reduction)
    if margin <= 0:
        raise ValueError(f"{name}: margin must be positive, got {margin}")
    anchor, positive, negative = triple
    if not anchor.dim() == positive.dim() == negative.dim():
        raise _C.ShapeError(
            f"{name}: anchor, positive and negative must have the same number of dims, got "
            f"{list(anchor.shape)}, {list(positive.shape)} and {list(negative.shape)}"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    return _reduce(name, (margin + near - far).clamp(min=0), reduction)
