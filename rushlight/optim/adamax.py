"""Adam by the infinity norm."""

from typing import ClassVar

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
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
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
