"""Rectified Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import (
    SWITCHES,
    RuleOptimizer,
    check_at_least_0,
    check_betas,
    check_lr,
    options,
)

__all__ = ["RAdam"]


class RAdam(RuleOptimizer):
    """Adam that waits with its adaptive rate until its variance can be told."""

    _rule = "radam"
    _numbers = ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay", "maximize")
    _late_options: ClassVar = {**SWITCHES, "decoupled_weight_decay": False}

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr("RAdam", lr)
        check_at_least_0("RAdam", eps=eps, weight_decay=weight_decay)
        check_betas("RAdam", betas)
        names = """lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay
        differentiable"""
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("exp_avg", "exp_avg_sq")
