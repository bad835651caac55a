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
    """Adam that waits with its adaptive rate until its variance can be told."""

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
