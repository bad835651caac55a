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
    """Scales steps by the ratio of the running sizes of past steps and gradients."""

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
