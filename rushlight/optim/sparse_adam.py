"""Adam for sparse gradients."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.optim.optimizer import Optimizer, ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Not available: there are no sparse tensors, so no gradient is ever sparse."""

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:  # fmt: skip
        raise NotImplementedError(
            "SparseAdam: there are no sparse gradients here; embeddings get dense ones. Use Adam"
        )
