"""RMSprop."""

from typing import ClassVar

from rushlight.optim._rule import SWITCHES, RuleOptimizer, check_at_least_0, check_lr, options

__all__ = ["RMSprop"]


class RMSprop(RuleOptimizer):
    """Divides by the root of the mean square of the gradient, or of its variance (``centered``)."""

    _rule = "rmsprop"
    _numbers = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize")
    _late_options: ClassVar = {**SWITCHES, "momentum": 0, "centered": False}

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        check_lr("RMSprop", lr)
        check_at_least_0(
            "RMSprop", eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha
        )
        names = (
            "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        )
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        centered = ("grad_avg",) if group["centered"] else ()
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *momentum, *centered)
