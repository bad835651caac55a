"""RMSprop."""

from __future__ import annotations

from typing import ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import SWITCHES, RuleOptimizer, check, options
from rushlight.optim.optimizer import ParamsT

__all__ = ["RMSprop"]


class RMSprop(RuleOptimizer):
    """Divides by the root of the mean square of the gradient, or of its variance (``centered``)."""

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
