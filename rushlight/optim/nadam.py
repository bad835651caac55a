"""Adam with Nesterov's momentum."""

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

__all__ = ["NAdam"]


class NAdam(RuleOptimizer):
    """Adam with Nesterov's momentum, which grows by ``momentum_decay`` from step to step.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        betas: how much of the averages of the gradient and of its square stays per step.
        eps: added to the divisor.
        weight_decay: factor of the L2 penalty that is added to gradients.
        momentum_decay: how the momentum grows.
        decoupled_weight_decay: shrink the parameter itself, as AdamW does.
        maximize: go up the gradient instead of down.
        foreach, capturable, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.NAdam([x], lr=0.5)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([2.7776], requires_grad=True)
    """

    _rule = "nadam"
    _numbers = ("lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay",
                "maximize")  # fmt: skip
    _scalars = ("step", "mu_product")
    _late_options: ClassVar = {**SWITCHES, "decoupled_weight_decay": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        names = """lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach
        capturable differentiable"""
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("exp_avg", "exp_avg_sq")

    def _start(self, p, group):
        state = self.state[p]
        state.setdefault("step", number(0.0, p, group))
        state.setdefault("mu_product", number(1.0, p, group))
        super()._start(p, group)
