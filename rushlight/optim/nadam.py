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
    """Adam with Nesterov's momentum, which grows by ``momentum_decay`` from step to step."""

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
