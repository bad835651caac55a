"""Adam by the infinity norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rushlight._C import Tensor
from rushlight.optim._rule import RuleOptimizer, check_at_least_0, check_betas, check_lr

__all__ = ["Adamax"]


class Adamax(RuleOptimizer):
    """Adam with a decaying maximum of the gradient's magnitude in place of its mean square."""

    _rule = "adamax"
    _late_options: ClassVar = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
    }

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr("Adamax", lr)
        check_at_least_0("Adamax", eps=eps, weight_decay=weight_decay)
        check_betas("Adamax", betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _states(self, group):
        return ("exp_avg", "exp_inf")

    def _options(self, group):
        beta1, beta2 = group["betas"]
        return (
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )
