"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import RuleOptimizer, check, check_at_least_0, check_lr

__all__ = ["Adadelta"]


class Adadelta(RuleOptimizer):
    """Scales steps by the ratio of the running sizes of past steps and gradients."""

    _rule = "adadelta"
    _late_options: ClassVar = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

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
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _states(self, group):
        return ("square_avg", "acc_delta")

    def _options(self, group):
        return (
            group["lr"],
            group["rho"],
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )
