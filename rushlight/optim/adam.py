"""Adam."""

from __future__ import annotations

from typing import ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import (
    SWITCHES,
    RuleOptimizer,
    options,
)
from rushlight.optim.optimizer import ParamsT

__all__ = ["Adam"]


def _check_tensors(name, lr, betas, foreach, capturable):
    if isinstance(lr, Tensor) and foreach and not capturable:
        raise ValueError(f"{name}: a tensor as lr and foreach=True need capturable=True")
    if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor) or not all(
        isinstance(b, float | Tensor) for b in betas
    ):
        raise ValueError(f"{name}: betas must be two floats or two tensors, got "
                         f"{type(betas[0]).__name__} and {type(betas[1]).__name__}")  # fmt: skip
    for i, beta in enumerate(betas):
        if not isinstance(beta, Tensor):
            continue
        if foreach and not capturable:
            raise ValueError(f"{name}: tensors as betas and foreach=True need capturable=True")
        if beta.numel() != 1:
            raise ValueError(f"{name}: betas[{i}] must have one element, "
                             f"it has shape {tuple(beta.shape)}")  # fmt: skip


class Adam(RuleOptimizer):
    """Steps by running averages of the gradient and of its square.

    ``amsgrad`` divides by the largest average of squares so far; ``decoupled_weight_decay``
    shrinks the parameter itself instead of adding to the gradient, which is AdamW.

    parameter -= lr * m / (sqrt(v) + eps), where m and v are the averages of the gradient and of
    its square, corrected for beginning at zero.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        betas: how much of the averages of the gradient and of its square stays per step.
        eps: added to the divisor.
        weight_decay: factor of the L2 penalty that is added to gradients.
        amsgrad: divide by the largest average so far.
        maximize: go up the gradient instead of down.
        foreach, fused, capturable, differentiable: accepted as PyTorch has them; steps are always
            fused here, and `differentiable` lets gradients flow through them.
        decoupled_weight_decay: shrink the parameter itself, as AdamW does.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.Adam([x], lr=0.5, betas=(0.9, 0.99))
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([2.5105], requires_grad=True)
    """

    _rule = "adam"
    _numbers = ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize",
                "decoupled_weight_decay")  # fmt: skip
    _late_options: ClassVar = {
        **SWITCHES,
        "amsgrad": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:  # fmt: skip
        _check_tensors(type(self).__name__, lr, betas, foreach, capturable)
        betas = tuple(b.squeeze() if isinstance(b, Tensor) else b for b in betas)
        names = """lr betas eps weight_decay amsgrad maximize foreach capturable differentiable
        fused decoupled_weight_decay"""
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        if group["amsgrad"]:
            return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return ("exp_avg", "exp_avg_sq")
