"""A softmax over many classes that spends little on the rare ones (Grave et al., 2017)."""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn.modules.container import ModuleList, Sequential
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.types import Device, _dtype

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes sorted by frequency: the head has the frequent ones and one entry per cluster.

    A target of cluster i costs a second, narrower product: div_value ** (i + 1) times fewer
    features.

    Arguments:
        in_features: features of the input.
        n_classes: how many classes, the frequent ones first.
        cutoffs: where the clusters of rarer and rarer classes begin.
        div_value: each cluster has so many times fewer features.
        head_bias: a bias for the most frequent classes.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> loss = nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2.0)
        >>> out = loss(rl.zeros(3, 8), rl.tensor([0, 7, 19]))
        >>> out.output.shape, loss.log_prob(rl.zeros(3, 8)).shape
        (rushlight.Size([3]), rushlight.Size([3, 20]))
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int],
                 div_value: float = 4.0, head_bias: bool = False, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("AdaptiveLogSoftmaxWithLoss: cutoffs must not be empty")
        rising = all(a < b for a, b in itertools.pairwise(cutoffs))
        whole = all(int(c) == c for c in cutoffs)
        if not rising or not whole or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be rising whole numbers from 1 to "
                f"n_classes - 1 = {n_classes - 1}, got {cutoffs}"
            )
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            narrow = int(in_features // (div_value ** (i + 1)))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, narrow, bias=False, **options),
                    Linear(narrow, classes, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:  # type: ignore[attr-defined]
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        batched = target.dim() > 0
        if target.dim() > 1:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: target must have 0 or 1 dims, got {target.dim()}"
            )
        if batched and input.shape[:1] != target.shape:
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: input and target differ in batch size: "
                f"{list(input.shape)} and {list(target.shape)}"
            )
        if input.dim() != (2 if batched else 1):
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: a target of one class takes an input of 1 dim, a "
                f"batch one of 2; got {list(input.shape)} and {list(target.shape)}"
            )
        if not batched:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        if target.numel():
            low, high = int(target.min()), int(target.max())
            if low < 0 or high >= self.n_classes:
                raise RuntimeError(
                    "AdaptiveLogSoftmaxWithLoss: targets must be from 0 to "
                    f"{self.n_classes - 1}, got {low} to {high}"
                )
        head = self.head(input).log_softmax(1)
        in_head = target.clone()
        parts = []  # (rows, log-probability within the cluster)
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            in_head = in_head.index_fill(0, rows, self.shortlist_size + i)
            logs = self.tail[i](input.index_select(0, rows)).log_softmax(1)
            picked = logs.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            parts.append((rows, picked))
        output = head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        for rows, picked in parts:
            output = output.index_add(0, rows, picked)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input, head_output):
        head = head_output.log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            own = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(tail(input).log_softmax(1) + own)
        return _C.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes, (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row; cheaper than log_prob where it is a frequent one."""
        head = self.head(input)
        best = head.argmax(1)
        others = (best >= self.shortlist_size).nonzero().squeeze(1)
        if others.numel() == 0:
            return best
        if others.numel() == input.shape[0]:
            return self._get_full_log_prob(input, head).argmax(1)
        full = self._get_full_log_prob(input.index_select(0, others), head.index_select(0, others))
        return best.index_copy(0, others, full.argmax(1))
