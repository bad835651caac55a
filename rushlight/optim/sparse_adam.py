"""Adam for sparse gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight._C import Tensor
from rushlight.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Not available: there are no sparse tensors, so no gradient is ever sparse."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        raise NotImplementedError(
            "SparseAdam: there are no sparse gradients here; embeddings get dense ones. Use Adam"
        )
