"""Losses of nn.functional under the names of the package, whose reduction is a number."""

from __future__ import annotations

from rushlight._C import Tensor

_REDUCTIONS = ("none", "mean", "sum")


def _functional():
    from rushlight.nn import functional  # nn is loaded when first used

    return functional


def _reduced(reduction):
    """PyTorch's losses at the top take a number: 0 none, 1 mean, 2 sum."""
    return reduction if isinstance(reduction, str) else _REDUCTIONS[reduction]


__all__ = [
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "triplet_margin_loss",
]


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     pos_weight: Tensor | None = None,
                                     reduction: int | str = 1) -> Tensor:  # fmt: skip
    """`nn.functional.binary_cross_entropy_with_logits`, with the reduction as a number.

    Arguments:
        input: logits, of any shape.
        target: probabilities between 0 and 1, of the same shape.
        weight: factors of the losses.
        pos_weight: factors of the positive part, one per class.
        reduction: 0 or "none", 1 or "mean", 2 or "sum".

    Example:
        >>> rl.binary_cross_entropy_with_logits(rl.zeros(2), rl.ones(2), reduction=0)
        tensor([0.6931, 0.6931])
    """
    f = _functional().binary_cross_entropy_with_logits
    return f(input, target, weight, pos_weight=pos_weight, reduction=_reduced(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`, with the reduction as a number.

    Arguments:
        input1, input2: vectors, (N, D) or (D).
        target: 1 where they should be alike, -1 where they should not.
        margin: how alike those of target -1 may be for nothing.
        reduction: 0 or "none", 1 or "mean", 2 or "sum".

    Example:
        >>> a, b = rl.eye(2), rl.ones(2, 2)
        >>> rl.cosine_embedding_loss(a, b, rl.tensor([1, -1]), 0.5, reduction=0)
        tensor([0.2929, 0.2071])
    """
    f = _functional().cosine_embedding_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int | str = 1
) -> Tensor:
    """`nn.functional.hinge_embedding_loss`, with the reduction as a number.

    Arguments:
        input: distances, of any shape.
        target: 1 (the loss is the distance) or -1 (the loss is what is left of the margin).
        margin: the distance from which pairs of target -1 cost nothing.
        reduction: 0 or "none", 1 or "mean", 2 or "sum".

    Example:
        >>> rl.hinge_embedding_loss(rl.tensor([0.25, 0.25]), rl.tensor([1, -1]), reduction=0)
        tensor([0.2500, 0.7500])
    """
    return _functional().hinge_embedding_loss(input, target, margin, reduction=_reduced(reduction))


def kl_div(
    input: Tensor, target: Tensor, reduction: int | str = 1, *, log_target: bool = False
) -> Tensor:
    """`nn.functional.kl_div`, with the reduction as a number.

    Arguments:
        input: logarithms of probabilities.
        target: probabilities, of the same shape.
        reduction: 0 or "none", 1 or "mean" (over all elements), 2 or "sum".
        log_target: target holds logarithms, too.

    Example:
        >>> p = rl.tensor([0.5, 0.5])
        >>> rl.kl_div(rl.tensor([0.25, 0.75]).log(), p, reduction=2)
        tensor(0.1438)
    """
    f = _functional().kl_div
    return f(input, target, reduction=_reduced(reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss`, with the reduction as a number.

    Arguments:
        input1, input2: numbers to be ranked.
        target: 1 where input1 should be the larger one, -1 where input2 should.
        margin: by how much.
        reduction: 0 or "none", 1 or "mean", 2 or "sum".

    Example:
        >>> a, b = rl.tensor([1.0, 2.0]), rl.tensor([3.0, 0.0])
        >>> rl.margin_ranking_loss(a, b, rl.tensor([1, 1]), margin=0.5, reduction=0)
        tensor([2.5000, 0.0000])
    """
    f = _functional().margin_ranking_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int | str
) -> Tensor:
    """`nn.functional.poisson_nll_loss`, with the reduction as a number and nothing left out.

    Arguments:
        input: the expected counts, or their logarithms.
        target: the counts.
        log_input: input holds logarithms.
        full: add Stirling's approximation of the term without input.
        eps: keeps the logarithm of an input of 0 finite.
        reduction: 0 or "none", 1 or "mean", 2 or "sum".

    Example:
        >>> rl.poisson_nll_loss(rl.zeros(2), rl.tensor([1.0, 2.0]), True, False, 1e-8, 0)
        tensor([1., 1.])
    """
    f = _functional().poisson_nll_loss
    return f(input, target, log_input, full, eps=eps, reduction=_reduced(reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0,
                        p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                        reduction: int | str = 1) -> Tensor:  # fmt: skip
    """`nn.functional.triplet_margin_loss`, with the reduction as a number.

    Arguments:
        anchor, positive, negative: vectors, (N, D) or (D): positive should be the nearer one.
        margin: by how much.
        p: the norm that measures distances.
        eps: is added to differences, so that the gradient at 0 exists.
        swap: measure from positive to negative where that is nearer.
        reduction: 0 or "none", 1 or "mean", 2 or "sum".

    Example:
        >>> a = rl.zeros(1, 2)
        >>> rl.triplet_margin_loss(a, a + 3, a + 1, margin=0.5, p=1.0)
        tensor(4.5000)
    """
    f = _functional().triplet_margin_loss
    return f(anchor, positive, negative, margin, p, eps, swap, reduction=_reduced(reduction))
