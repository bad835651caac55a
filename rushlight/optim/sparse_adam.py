"""Adam for sparse gradients."""

from rushlight.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Not available: there are no sparse tensors, so no gradient is ever sparse."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        raise NotImplementedError(
            "SparseAdam: there are no sparse gradients here; embeddings get dense ones. Use Adam"
        )
