"""RMSprop."""

from __future__ import annotations

from typing import ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import SWITCHES, RuleOptimizer, check, options
from rushlight.optim.optimizer import ParamsT

__all__ = ["RMSprop"]


class RMSprop(RuleOptimizer):
    """Divides by the root of the mean square of the gradient, or of its variance (``centered``).

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        alpha: how much of the mean square stays per step.
        eps: added to the divisor.
        weight_decay: factor of the L2 penalty that is added to gradients.
        momentum: how much of the last step goes into the next.
        centered: divide by the deviation instead of the root of the mean square.
        maximize: go up the gradient instead of down.
        foreach, capturable, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.RMSprop([x], lr=0.1, alpha=0.9)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([3.2839], requires_grad=True)
    """

    _rule = "rmsprop"
    _numbers = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize")
    _late_options: ClassVar = {**SWITCHES, "momentum": 0, "centered": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99,
                 eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0,
                 centered: bool = False, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check("RMSprop", alpha >= 0.0, "alpha must be at least 0", alpha)
        names = (
            "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        )
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        centered = ("grad_avg",) if group["centered"] else ()
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *momentum, *centered)
