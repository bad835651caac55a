"""Adam by the infinity norm."""

from __future__ import annotations

from typing import ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import (
    SWITCHES,
    RuleOptimizer,
    options,
)
from rushlight.optim.optimizer import ParamsT

__all__ = ["Adamax"]


class Adamax(RuleOptimizer):
    """Adam with a decaying maximum of the gradient's magnitude in place of its mean square.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        betas: how much of the average of the gradient and of the maximum stays per step.
        eps: added to the magnitude.
        weight_decay: factor of the L2 penalty that is added to gradients.
        maximize: go up the gradient instead of down.
        foreach, capturable, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.Adamax([x], lr=0.5)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([2.5969], requires_grad=True)
    """

    _rule = "adamax"
    _numbers = ("lr", "betas", "eps", "weight_decay", "maximize")
    _late_options: ClassVar = SWITCHES

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:  # fmt: skip
        names = "lr betas eps weight_decay foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("exp_avg", "exp_inf")
