"""Adadelta."""

from __future__ import annotations

from typing import ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import (
    SWITCHES,
    RuleOptimizer,
    check,
    options,
)
from rushlight.optim.optimizer import ParamsT

__all__ = ["Adadelta"]


class Adadelta(RuleOptimizer):
    """Scales steps by the ratio of the running sizes of past steps and gradients.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        rho: how much of the running sizes stays per step.
        eps: added to both sizes.
        weight_decay: factor of the L2 penalty that is added to gradients.
        maximize: go up the gradient instead of down.
        foreach, capturable, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.Adadelta([x], lr=1.0, rho=0.5)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([3.9952], requires_grad=True)
    """

    _rule = "adadelta"
    _numbers = ("lr", "rho", "eps", "weight_decay", "maximize")
    _late_options: ClassVar = SWITCHES

    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9,
                 eps: float = 1e-6, weight_decay: float = 0, foreach: bool | None = None, *,
                 capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check("Adadelta", 0.0 <= rho <= 1.0, "rho must be in [0, 1]", rho)
        names = "lr rho eps weight_decay maximize capturable foreach differentiable"
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("square_avg", "acc_delta")
