"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import (
    SWITCHES,
    RuleOptimizer,
    check,
    check_at_least_0,
    check_lr,
    options,
)

__all__ = ["Adadelta"]


class Adadelta(RuleOptimizer):
    """Scales steps by the ratio of the running sizes of past steps and gradients."""

    _rule = "adadelta"
    _numbers = ("lr", "rho", "eps", "weight_decay", "maximize")
    _late_options: ClassVar = SWITCHES

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr("Adadelta", lr)
        check("Adadelta", 0.0 <= rho <= 1.0, "rho must be in [0, 1]", rho)
        check_at_least_0("Adadelta", eps=eps, weight_decay=weight_decay)
        names = "lr rho eps weight_decay maximize capturable foreach differentiable"
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("square_avg", "acc_delta")
