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
    """nn.functional.binary_cross_entropy_with_logits."""
    f = _functional().binary_cross_entropy_with_logits
    return f(input, target, weight, pos_weight=pos_weight, reduction=_reduced(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """nn.functional.cosine_embedding_loss."""
    f = _functional().cosine_embedding_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int | str = 1
) -> Tensor:
    """nn.functional.hinge_embedding_loss."""
    return _functional().hinge_embedding_loss(input, target, margin, reduction=_reduced(reduction))


def kl_div(
    input: Tensor, target: Tensor, reduction: int | str = 1, *, log_target: bool = False
) -> Tensor:
    """nn.functional.kl_div."""
    f = _functional().kl_div
    return f(input, target, reduction=_reduced(reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """nn.functional.margin_ranking_loss."""
    f = _functional().margin_ranking_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int | str
) -> Tensor:
    """nn.functional.poisson_nll_loss."""
    f = _functional().poisson_nll_loss
    return f(input, target, log_input, full, eps=eps, reduction=_reduced(reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0,
                        p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                        reduction: int | str = 1) -> Tensor:  # fmt: skip
    """nn.functional.triplet_margin_loss."""
    f = _functional().triplet_margin_loss
    return f(anchor, positive, negative, margin, p, eps, swap, reduction=_reduced(reduction))
