"""Rectified Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import RuleOptimizer, check_at_least_0, check_betas, check_lr

__all__ = ["RAdam"]


class RAdam(RuleOptimizer):
    """Adam that waits with its adaptive rate until its variance can be told."""

    _rule = "radam"
    _late_options: ClassVar = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _states(self, group):
        return ("exp_avg", "exp_avg_sq")

    def _options(self, group):
        beta1, beta2 = group["betas"]
        return (
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            group["maximize"],
        )
