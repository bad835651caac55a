"""Adagrad."""

from __future__ import annotations

from typing import ClassVar

from rushlight import _C
from rushlight._C import Tensor
from rushlight.optim._rule import RuleOptimizer, at_places_of, number, options
from rushlight.optim.optimizer import ParamsT

__all__ = ["Adagrad"]


class Adagrad(RuleOptimizer):
    """Divides the rate by the root of the sum of all squared gradients so far.

    Its states exist from the beginning.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        lr_decay: the rate falls as 1 / (1 + step * lr_decay).
        weight_decay: factor of the L2 penalty that is added to gradients.
        initial_accumulator_value: what the sums begin with.
        eps: added to the divisor.
        maximize: go up the gradient instead of down.
        foreach, fused, differentiable: accepted as PyTorch has them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.Adagrad([x], lr=1.0)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([1.9673], requires_grad=True)
    """

    _rule = "adagrad"
    _numbers = ("lr", "lr_decay", "weight_decay", "eps", "maximize")
    _late_options: ClassVar = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0,
                 weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
                 foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        names = """lr lr_decay eps weight_decay initial_accumulator_value foreach maximize
        differentiable fused"""
        super().__init__(params, options(locals(), names))
        for group in self.param_groups:
            for p in group["params"]:
                self._start(p, group)

    def share_memory(self) -> None:
        """Moves the sums into memory that other processes can share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _states(self, group):
        return ("sum",)

    def _start(self, p, group):
        state = self.state[p]
        state.setdefault("step", number(0.0, p, group))
        if state.get("sum") is None:
            value = self.defaults["initial_accumulator_value"]
            value = complex(value, value) if p.is_complex() else value
            state["sum"] = _C.full_like(p, value, memory_format=_C.preserve_format)

    def _step_sparse(self, p, group):
        if group["weight_decay"] != 0:
            raise RuntimeError("Adagrad: weight_decay does not go with sparse gradients: it would "
                               "change all elements")  # fmt: skip
        state = self.state[p]
        state["step"] += 1
        rate = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
        grad = (-p.grad if group["maximize"] else p.grad).coalesce()
        state["sum"].add_(grad.pow(2))
        below = state["sum"].sparse_mask(grad).values().sqrt().add_(group["eps"])
        p.add_(at_places_of(grad, grad.values() / below), alpha=-rate)
