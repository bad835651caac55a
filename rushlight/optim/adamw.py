"""Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor
from rushlight.optim.adam import Adam
from rushlight.optim.optimizer import ParamsT

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself.

    The usual choice for transformers. Leave biases and norms out of the decay by groups of their
    own.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        betas: how much of the averages of the gradient and of its square stays per step.
        eps: added to the divisor.
        weight_decay: the parameter shrinks by lr * weight_decay per step.
        amsgrad: divide by the largest average so far.
        maximize: go up the gradient instead of down.
        foreach, fused, capturable, differentiable: accepted as PyTorch has them; steps are always
            fused here, and `differentiable` lets gradients flow through them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.AdamW([x], lr=0.5, weight_decay=0.1)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([2.0217], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False,
                 differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # older checkpoints do not say so
            group["decoupled_weight_decay"] = True
