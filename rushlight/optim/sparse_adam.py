"""Adam for sparse gradients."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight.optim._rule import EachParameter, at_places_of, check, check_betas, check_lr
from rushlight.optim.optimizer import ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(EachParameter):
    """Adam for sparse gradients, as those of ``Embedding(sparse=True)``.

    A step changes only the rows that the gradient names, and the averages of these; those of the
    other rows do not fade meanwhile.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        betas: how much of the averages of the gradient and of its square stays per step.
        eps: added to the divisor.
        maximize: go up the gradient instead of down.

    Example:
        >>> table = nn.Embedding(3, 1, sparse=True)
        >>> before = table.weight.detach().clone()
        >>> optimizer = optim.SparseAdam(table.parameters(), lr=0.5)
        >>> table(rl.tensor([2])).sum().backward(); optimizer.step()
        >>> (table.weight.detach() - before).flatten()
        tensor([ 0.0000,  0.0000, -0.5000])
    """

    _takes_sparse = True

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:  # fmt: skip
        check_lr("SparseAdam", lr)
        check("SparseAdam", lr > 0.0, "lr must be above 0", lr)
        check("SparseAdam", eps > 0.0, "eps must be above 0", eps)
        check_betas("SparseAdam", betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        held = [
            (k, i, p)
            for k, group in enumerate(self.param_groups)
            for i, p in enumerate(group["params"])
        ]
        if sparse := [(k, i) for k, i, p in held if p.layout is not _C.strided]:
            raise ValueError(
                f"SparseAdam: parameters must be dense, only their gradients are sparse; "
                f"these (group, number) are sparse: {sparse}"
            )
        if complex_ones := [(k, i) for k, i, p in held if p.is_complex()]:
            raise ValueError(
                "SparseAdam: parameters must be real numbers; these (group, number) are complex: "
                f"{complex_ones}"
            )

    def _step_one(self, p, group):
        if p.grad.layout is _C.strided:
            raise RuntimeError("SparseAdam: a gradient is dense; use Adam for its parameter")
        state = self.state[p]
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = _C.zeros_like(p, memory_format=_C.preserve_format)
        state["step"] += 1
        grad = (-p.grad if group["maximize"] else p.grad).coalesce()
        if grad._nnz() == 0:
            return
        beta1, beta2 = group["betas"]
        values = grad.values()
        mean = state["exp_avg"].sparse_mask(grad).values()
        square = state["exp_avg_sq"].sparse_mask(grad).values()
        mean_step = (values - mean) * (1 - beta1)
        square_step = (values * values - square) * (1 - beta2)
        state["exp_avg"].add_(at_places_of(grad, mean_step))
        state["exp_avg_sq"].add_(at_places_of(grad, square_step))
        below = (square + square_step).sqrt_().add_(group["eps"])
        rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        p.add_(at_places_of(grad, (mean + mean_step).div_(below).mul_(-rate)))
