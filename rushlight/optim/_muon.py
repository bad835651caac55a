"""Muon: momentum whose direction is made orthogonal."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight.optim._rule import EachParameter, check_at_least_0, check_lr, options
from rushlight.optim.optimizer import ParamsT

__all__ = ["Muon"]

_LR_ADJUSTMENTS = (None, "original", "match_rms_adamw")


def _orthogonal(matrix, coefficients, steps, eps):
    """Brings the singular values of a matrix near 1, by Newton-Schulz iterations in bfloat16."""
    if steps >= 100:
        raise ValueError(f"Muon: ns_steps must be below 100, got {steps}")
    if len(coefficients) != 3:
        raise ValueError(f"Muon: ns_coefficients must be three numbers, got {len(coefficients)}")
    a, b, c = coefficients
    x = matrix.bfloat16()
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = _C.addmm(x, _C.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(EachParameter):
    """Momentum with orthogonalised steps, for the matrices inside a network.

    Arguments:
        params: matrices; other parameters go to another optimizer.
        lr: the learning rate.
        weight_decay: the parameter shrinks by lr * weight_decay per step.
        momentum: how much of the last step goes into the next.
        nesterov: look one step ahead.
        ns_coefficients, ns_steps, eps: of the Newton-Schulz iteration that makes steps
            orthogonal.
        adjust_lr_fn: how the rate follows the shape: 'original' or 'match_rms_adamw'; None is the
            first.

    Example:
        >>> weight = rl.eye(2).requires_grad_()
        >>> optimizer = optim.Muon([weight], lr=0.1, weight_decay=0.0)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> bool(weight.diagonal().sum() < 2)
        True
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1,
                 momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5,
                 adjust_lr_fn: str | None = None) -> None:  # fmt: skip
        check_lr("Muon", lr)
        check_at_least_0("Muon", momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in _LR_ADJUSTMENTS:
            raise ValueError("Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', "
                             f"not {adjust_lr_fn!r}")  # fmt: skip
        names = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
        super().__init__(params, options(locals(), names))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError("Muon: parameters must have two dims, got one of shape "
                                     f"{tuple(p.shape)}; use AdamW for the others")  # fmt: skip

    def _step_one(self, p, group):
        if p.is_complex():
            raise RuntimeError("Muon: complex parameters are not supported")
        lr, grad, momentum = float(group["lr"]), p.grad, group["momentum"]
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = _C.zeros_like(grad, memory_format=_C.preserve_format)
        buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        else:
            ratio = math.sqrt(max(1, rows / columns))
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(update.to(p.dtype), alpha=-lr * ratio)
