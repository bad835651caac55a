"""Adafactor: second moments of matrices kept as a row and a column."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.optim._rule import EachParameter, check, check_at_least_0, check_lr, number, options
from rushlight.optim.optimizer import ParamsT

__all__ = ["Adafactor"]


class Adafactor(EachParameter):
    """Steps relative to the size of the parameter, with memory linear in rows and columns.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        beta2_decay: how fast the averages come to rest.
        eps: two small numbers, for squares of gradients and of parameters; None is that of the
            dtype.
        d: the largest root mean square of a step.
        weight_decay: the parameter shrinks by lr * weight_decay per step.
        foreach: accepted as PyTorch has it.
        maximize: go up the gradient instead of down.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.Adafactor([x], lr=0.5)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([0.9743], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0,
                 weight_decay: float = 0.0, *, foreach: bool | None = None,
                 maximize: bool = False) -> None:  # fmt: skip
        check_lr("Adafactor", lr)
        check("Adafactor", beta2_decay <= 0.0, "beta2_decay must be at most 0", beta2_decay)
        check("Adafactor", eps[0] is None or eps[0] >= 0.0, "eps[0] must be at least 0", eps[0])
        check("Adafactor", eps[1] >= 0.0, "eps[1] must be at least 0", eps[1])
        check("Adafactor", d >= 1.0, "d must be at least 1", d)
        check_at_least_0("Adafactor", weight_decay=weight_decay)
        names = "lr beta2_decay eps d weight_decay foreach maximize"
        super().__init__(params, options(locals(), names))

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)

    def _start(self, grad, state):
        state["step"] = number(0.0)
        if grad.dim() > 1:
            rows, columns = list(grad.shape), list(grad.shape)
            rows[-1] = columns[-2] = 1
            state["row_var"] = grad.new_zeros(rows)
            state["col_var"] = grad.new_zeros(columns)
        else:
            state["variance"] = _C.zeros_like(grad)

    def _step_one(self, p, group):
        if p.is_complex():
            raise RuntimeError("Adafactor: complex parameters are not supported")
        state = self.state[p]
        if not state:
            self._start(p.grad, state)
        state["step"] += 1
        step, lr = float(state["step"]), float(group["lr"])
        grad = -p.grad if group["maximize"] else p.grad
        eps1, eps2 = group["eps"]
        eps1 = _C.finfo(p.dtype).eps if eps1 is None else eps1
        weight = step ** group["beta2_decay"]
        size = float(p.norm(2)) / p.numel() ** 0.5
        alpha = max(eps2, size) * min(lr, step**-0.5)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        update = self._variance(grad, state, weight, eps1).clamp_(min=eps1 * eps1).rsqrt_()
        update.mul_(grad)
        too_long = max(1.0, float(update.norm(2)) / (update.numel() ** 0.5 * group["d"]))
        p.add_(update, alpha=-alpha / too_long)

    @staticmethod
    def _variance(grad, state, weight, eps1):
        if grad.dim() <= 1:
            return state["variance"].lerp_(grad * grad, weight).clone()
        squares = grad.square()
        row = state["row_var"].lerp_(squares.mean(dim=-1, keepdim=True), weight)
        column = state["col_var"].lerp_(squares.mean(dim=-2, keepdim=True), weight)
        return (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=eps1))
