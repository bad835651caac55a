"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import (
    SWITCHES,
    RuleOptimizer,
    number,
    options,
)
from rushlight.optim.optimizer import ParamsT

__all__ = ["ASGD"]


class ASGD(RuleOptimizer):
    """Gradient descent that also keeps the average of the parameters since step ``t0``.

    The average of parameter p is ``optimizer.state[p]["ax"]``.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        lambd: how fast parameters decay.
        alpha: the power by which the rate falls.
        t0: the step at which averaging begins.
        weight_decay: factor of the L2 penalty that is added to gradients.
        maximize: go up the gradient instead of down.
        foreach, capturable, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.ASGD([x], lr=0.1)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([2.0479], requires_grad=True)
    """

    _rule = "asgd"
    _numbers = ("lr", "lambd", "alpha", "t0", "weight_decay", "maximize")
    _scalars = ("step", "eta", "mu")
    _late_options: ClassVar = SWITCHES

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4,
                 alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:  # fmt: skip
        names = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("ax",)

    def _start(self, p, group):
        state = self.state[p]
        state.setdefault("step", number(0.0, p, group))
        state.setdefault("eta", number(float(group["lr"]), p, group))
        state.setdefault("mu", number(1.0, p, group))
        super()._start(p, group)
