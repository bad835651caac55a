"""Losses as modules; nn.functional has the formulas."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.functional import _reduction as _Reduction
from rushlight.nn.modules.distance import PairwiseDistance
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from rushlight.nn.modules.module import Module
from rushlight.types import Device, _dtype

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    __constants__: tuple[str, ...] = ("reduction",)

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = _Reduction.legacy_get_string(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None,
                 reduce: bool | None = None, reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """The mean of |input - target|: nn.functional.l1_loss as a module.

    Arguments:
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.L1Loss(reduction="sum")(rl.tensor([1.0, 5.0]), rl.tensor([1.0, 2.0]))
        tensor(3.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean of (input - target)^2: nn.functional.mse_loss as a module.

    Arguments:
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.MSELoss(reduction="sum")(rl.tensor([1.0, 5.0]), rl.tensor([1.0, 2.0]))
        tensor(9.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squares of differences below beta, absolute values above: nn.functional.smooth_l1_loss.

    Arguments:
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        beta: where the two parts meet.

    Example:
        >>> nn.SmoothL1Loss(beta=2.0)(rl.tensor([0.5]), rl.tensor([0.0]))
        tensor(0.0625)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean", beta: float = 1.0) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squares below delta, delta times absolute values above.

    Arguments:
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        delta: where squares turn into absolute values.

    Example:
        >>> nn.HuberLoss(delta=2.0)(rl.tensor([5.0]), rl.tensor([0.0]))
        tensor(8.)
    """

    __constants__: tuple[str, ...] = ("reduction", "delta")

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, float | int):
            raise TypeError(f"HuberLoss: delta must be a number, got {type(delta).__name__}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the target class.

    Arguments:
        weight: a factor per class.
        size_average, reduce: old spellings of reduction.
        ignore_index: targets of this class do not count.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Shape: input (N, C) of log-probabilities, target (N) of classes.

    Example:
        >>> nn.NLLLoss(reduction="sum")(rl.tensor([[0.25, 0.75]]).log(), rl.tensor([1]))
        tensor(0.2877)
    """

    __constants__: tuple[str, ...] = ("ignore_index", "reduction")

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None,
                 ignore_index: int = -100, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None,
                 ignore_index: int = -100, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        warnings.warn("NLLLoss2d is deprecated, use NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy between scores and the right classes, the loss of classifiers.

    Pass scores as they come out of the last layer: softmax is part of the loss.

    Arguments:
        weight: a factor per class, for classes of different frequency.
        size_average, reduce: old spellings of reduction.
        ignore_index: targets of this class do not count.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        label_smoothing: how much of the probability is spread over all classes, from 0 to 1.

    Shape: input (N, C) or (N, C, d1, ...), target (N) or (N, d1, ...) of classes, or
        probabilities like the input.

    Example:
        >>> loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        >>> scores = rl.tensor([[2.0, 0.0], [0.0, 0.0]])
        >>> loss(scores, rl.tensor([0, 1]))
        tensor(0.4600)
    """

    __constants__: tuple[str, ...] = ("ignore_index", "reduction", "label_smoothing")

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None,
                 ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                 label_smoothing: float = 0.0) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear map to num_classes scores and their cross entropy; the scores are never whole in
    memory (nn.functional.linear_cross_entropy).

    Arguments:
        in_features: features of the input.
        num_classes: how many classes.
        out_features: more dims of the targets, of which each has classes.
        bias: whether the map has one.
        device, dtype: where the parameters lie, and their dtype.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        weight: a factor per class.
        ignore_index: targets of this class do not count; None is -100.
        label_smoothing: how much of the probability is spread over all classes.
        options: how the work is cut, a LinearCrossEntropyOptions.

    Example:
        >>> loss = nn.LinearCrossEntropyLoss(4, 10, reduction="sum")
        >>> loss(rl.zeros(3, 4), rl.tensor([1, 2, 3])).shape
        rushlight.Size([])
    """

    __constants__: tuple[str, ...] = (
        "num_classes",
        "out_features",
        "reduction",
        "ignore_index",
        "label_smoothing",
    )

    def __init__(self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
                 bias: bool = False, device: Device = None, dtype: _dtype | None = None,
                 reduction: str = "mean", weight: Tensor | None = None,
                 ignore_index: int | None = None, label_smoothing: float = 0.0,
                 options: LinearCrossEntropyOptions | None = None) -> None:  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                "LinearCrossEntropyLoss: the weight must have one number for each of the "
                f"{num_classes} classes, got shape {list(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"LinearCrossEntropyLoss: label_smoothing must be between 0 and 1, got "
                f"{label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        # Its weight is a matrix, whatever out_features says: Linear takes no other.
        self.linear = Linear(
            in_features, math.prod(out_features, start=num_classes), bias, device, dtype
        )
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class PoissonNLLLoss(_Loss):
    """-log of Poisson's probability of the target.

    Arguments:
        log_input: the input is the logarithm of the rate.
        full: add Stirling's approximation of log(target!).
        size_average, reduce: old spellings of reduction.
        eps: added to the rate before the logarithm.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.PoissonNLLLoss(log_input=False)(rl.tensor([2.0]), rl.tensor([3.0]))
        tensor(-0.0794)
    """

    __constants__: tuple[str, ...] = ("log_input", "full", "eps", "reduction")

    def __init__(self, log_input: bool = True, full: bool = False, size_average: bool | None = None,
                 eps: float = 1e-8, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """-log of the normal density of the target.

    Arguments:
        full: add the constant log(2 pi) / 2.
        eps: the smallest variance.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.GaussianNLLLoss(full=True)(rl.tensor([0.0]), rl.tensor([2.0]), rl.tensor([4.0]))
        tensor(2.1121)
    """

    __constants__: tuple[str, ...] = ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of the target from the input's log-probabilities.

    Arguments:
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'batchmean' (the divergence itself), 'sum' or 'none'.
        log_target: the target holds log-probabilities, too.

    Example:
        >>> p, q = rl.tensor([[0.5, 0.5]]), rl.tensor([[0.9, 0.1]])
        >>> nn.KLDivLoss(reduction="batchmean")(q.log(), p)
        tensor(0.5108)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean", log_target: bool = False) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """The binary cross entropy of probabilities; BCEWithLogitsLoss takes scores and is more
    exact.

    Arguments:
        weight: a factor per element.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.BCELoss(reduction="none")(rl.tensor([0.5, 0.9]), rl.tensor([1.0, 1.0]))
        tensor([0.6931, 0.1054])
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of scores: sigmoid and BCELoss in one, without overflow.

    Arguments:
        weight: a factor per element.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.
        pos_weight: a factor for the positive part, per class.

    Example:
        >>> nn.BCEWithLogitsLoss(pos_weight=rl.tensor([3.0]))(rl.tensor([0.0]), rl.tensor([1.0]))
        tensor(2.0794)
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None,
                 reduce: bool | None = None, reduction: str = "mean",
                 pos_weight: Tensor | None = None) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """x where the target is 1, max(0, margin - x) where it is -1.

    Arguments:
        margin: how far apart pairs with target -1 should be.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.HingeEmbeddingLoss(margin=2.0)(rl.tensor([0.5, 0.5]), rl.tensor([1.0, -1.0]))
        tensor(1.)
    """

    __constants__: tuple[str, ...] = ("margin", "reduction")

    def __init__(self, margin: float = 1.0, size_average: bool | None = None,
                 reduce: bool | None = None, reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Every target class above every other by 1.

    Arguments:
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.MultiLabelMarginLoss(reduction="sum")(rl.tensor([[0.1, 0.9]]), rl.tensor([[1, -1]]))
        tensor(0.1000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * x)).

    Arguments:
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.SoftMarginLoss(reduction="sum")(rl.tensor([0.0, 2.0]), rl.tensor([1.0, 1.0]))
        tensor(0.8201)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean binary cross entropy over classes, from raw scores.

    Arguments:
        weight: a factor per class.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.MultiLabelSoftMarginLoss(reduction="sum")(rl.zeros(1, 2), rl.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class _PairLoss(_Loss):
    """A loss of two inputs, with a margin."""

    __constants__: tuple[str, ...] = ("margin", "reduction")

    def __init__(self, margin: float = 0.0, size_average: bool | None = None,
                 reduce: bool | None = None, reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_PairLoss):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Arguments:
        margin: how similar vectors with target -1 may be.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> a, b = rl.tensor([[1.0, 0.0]]), rl.tensor([[0.0, 1.0]])
        >>> nn.CosineEmbeddingLoss(margin=0.5)(a, b, rl.tensor([1.0]))
        tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_PairLoss):
    """max(0, -target * (input1 - input2) + margin).

    Arguments:
        margin: by how much the better one should win.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.MarginRankingLoss(margin=0.5)(rl.tensor([1.0]), rl.tensor([3.0]), rl.tensor([1.0]))
        tensor(2.5000)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """The target class above every other by a margin.

    Arguments:
        p: 1 or 2.
        margin: by how much the right class should win.
        weight: a factor per class.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.MultiMarginLoss(p=2)(rl.tensor([[0.1, 0.9]]), rl.tensor([0]))
        tensor(1.6200)
    """

    __constants__: tuple[str, ...] = ("p", "margin", "reduction")

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                 size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: the weight must have 1 dim, got {list(weight.shape)}"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginLoss(_Loss):
    """The positive nearer to the anchor than the negative, by a margin.

    Arguments:
        margin: by how much the negative should be farther away.
        p: which norm measures distances.
        eps: added to differences.
        swap: take the negative's distance to the positive where that is smaller.
        size_average, reduce: old spellings of reduction.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> nn.TripletMarginLoss(margin=2.0)(rl.tensor([[0.0]]), rl.tensor([[1.0]]),
        ...     rl.tensor([[1.5]]))
        tensor(1.5000)
    """

    __constants__: tuple[str, ...] = ("margin", "p", "eps", "swap", "reduction")

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                 size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin must be positive, got {margin}")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with another distance.

    Arguments:
        distance_function: of two tensors; None is pairwise_distance.
        margin: by how much the negative should be farther away.
        swap: take the negative's distance to the positive where that is smaller.
        reduction: 'mean' (default), 'sum', or 'none' for a loss per element.

    Example:
        >>> distance = nn.PairwiseDistance(p=1)
        >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=distance)
        >>> loss(rl.tensor([[0.0]]), rl.tensor([[1.0]]), rl.tensor([[1.5]]))
        tensor(0.5000)
    """

    __constants__: tuple[str, ...] = ("margin", "swap", "reduction")

    def __init__(self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
                 margin: float = 1.0, swap: bool = False,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: margin must be positive, got {margin}"
            )
        self.distance_function = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Minus the log-probability of label sequences, over all alignments with the time steps.

    Arguments:
        blank: the class that stands for no label.
        reduction: 'mean' (default, each loss divided by its number of labels), 'sum' or 'none'.
        zero_infinity: loss 0 where no alignment is possible.

    Shape: log_probs (T, N, C), targets (N, S), lengths (N) each.

    Example:
        >>> log_probs = F.log_softmax(rl.zeros(4, 1, 3), dim=2)
        >>> nn.CTCLoss(reduction="sum")(log_probs, rl.tensor([[1, 2]]), [4], [2])
        tensor(1.6864)
    """

    __constants__: tuple[str, ...] = ("blank", "reduction")

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
