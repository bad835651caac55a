"""Losses of nn.functional under the names of the package, whose reduction is a number."""

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


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1):
    """nn.functional.binary_cross_entropy_with_logits."""
    f = _functional().binary_cross_entropy_with_logits
    return f(input, target, weight, pos_weight=pos_weight, reduction=_reduced(reduction))


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.cosine_embedding_loss."""
    f = _functional().cosine_embedding_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """nn.functional.hinge_embedding_loss."""
    return _functional().hinge_embedding_loss(input, target, margin, reduction=_reduced(reduction))


def kl_div(input, target, reduction=1, *, log_target=False):
    """nn.functional.kl_div."""
    f = _functional().kl_div
    return f(input, target, reduction=_reduced(reduction), log_target=log_target)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.margin_ranking_loss."""
    f = _functional().margin_ranking_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """nn.functional.poisson_nll_loss."""
    f = _functional().poisson_nll_loss
    return f(input, target, log_input, full, eps=eps, reduction=_reduced(reduction))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False,
                        reduction=1):  # fmt: skip
    """nn.functional.triplet_margin_loss."""
    f = _functional().triplet_margin_loss
    return f(anchor, positive, negative, margin, p, eps, swap, reduction=_reduced(reduction))
