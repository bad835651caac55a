"""Rectified Adam."""

from typing import ClassVar

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
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        check_lr("RAdam", lr)
        check_at_least_0("RAdam", eps=eps, weight_decay=weight_decay)
        check_betas("RAdam", betas)
        names = """lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay
        differentiable"""
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("exp_avg", "exp_avg_sq")
