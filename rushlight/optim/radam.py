"""Rectified Adam."""

from __future__ import annotations

from typing import ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import (
    SWITCHES,
    RuleOptimizer,
    options,
)
from rushlight.optim.optimizer import ParamsT

__all__ = ["RAdam"]


class RAdam(RuleOptimizer):
    """Adam that waits with its adaptive rate until its variance can be told.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        betas: how much of the averages of the gradient and of its square stays per step.
        eps: added to the divisor.
        weight_decay: factor of the L2 penalty that is added to gradients.
        decoupled_weight_decay: shrink the parameter itself, as AdamW does.
        maximize: go up the gradient instead of down.
        foreach, capturable, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.RAdam([x], lr=0.1)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([1.8492], requires_grad=True)
    """

    _rule = "radam"
    _numbers = ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay", "maximize")
    _late_options: ClassVar = {**SWITCHES, "decoupled_weight_decay": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        names = """lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay
        differentiable"""
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("exp_avg", "exp_avg_sq")
