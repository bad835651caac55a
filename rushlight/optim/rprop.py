"""Resilient backpropagation."""

from __future__ import annotations

from typing import ClassVar

from rushlight import _C
from rushlight._C import Tensor
from rushlight.optim._rule import SWITCHES, RuleOptimizer, check, number, options
from rushlight.optim.optimizer import ParamsT

__all__ = ["Rprop"]


class Rprop(RuleOptimizer):
    """Steps by the gradient's sign, with a size per element that grows while the sign holds.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the size of the first step.
        etas: factors for a changed and for an unchanged sign.
        step_sizes: the smallest and the largest step.
        maximize: go up the gradient instead of down.
        foreach, capturable, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.Rprop([x], lr=0.5)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([2.1800], requires_grad=True)
    """

    _rule = "rprop"
    _late_options: ClassVar = SWITCHES

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2,
                 etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check("Rprop", 0.0 < etas[0] < 1.0 < etas[1], "etas must be 0 < etas[0] < 1 < etas[1]",
              tuple(etas))  # fmt: skip
        names = "lr etas step_sizes foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("prev", "step_size")

    def _start(self, p, group):
        state = self.state[p]
        state.setdefault("step", number(0.0, p, group))
        if state.get("prev") is None:
            state["prev"] = _C.zeros_like(p, memory_format=_C.preserve_format)
        if state.get("step_size") is None:
            lr = float(group["lr"])
            state["step_size"] = _C.full_like(p, complex(lr, lr) if p.is_complex() else lr)

    def _options(self, group):
        return (*group["etas"], *group["step_sizes"], group["maximize"])
