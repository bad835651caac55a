"""Distances as modules."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of the difference over the last dim.

    Arguments:
        p: which norm.
        eps: added to each difference.
        keepdim: keep each reduced dim with size 1.

    Example:
        >>> nn.PairwiseDistance(p=1)(rl.tensor([[0.0, 0.0]]), rl.tensor([[3.0, 4.0]]))
        tensor([7.0000])
    """

    __constants__: tuple[str, ...] = ("norm", "eps", "keepdim")

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along dim.

    Arguments:
        dim: the dim along which vectors lie.
        eps: the smallest length that is divided by.

    Example:
        >>> nn.CosineSimilarity(dim=1)(rl.tensor([[1.0, 0.0]]), rl.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """

    __constants__: tuple[str, ...] = ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
