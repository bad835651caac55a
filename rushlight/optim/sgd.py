"""Stochastic gradient descent."""

from __future__ import annotations

from typing import ClassVar

from rushlight import _C
from rushlight._C import Tensor, _cuda
from rushlight.optim._rule import RuleOptimizer, _step, options
from rushlight.optim.optimizer import ParamsT

__all__ = ["SGD"]


class SGD(RuleOptimizer):
    """Stochastic gradient descent, with momentum (Nesterov's, if asked for) and weight decay.

    The buffer of the momentum begins as the first gradient, without dampening.

    v = momentum * v + gradient; parameter -= lr * v.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the learning rate.
        momentum: how much of the last step goes into the next.
        dampening: take this part off the gradient that enters the momentum.
        weight_decay: factor of the L2 penalty that is added to gradients.
        nesterov: look one step ahead (Nesterov's momentum).
        maximize: go up the gradient instead of down.
        foreach, fused, differentiable: accepted as PyTorch has them; steps are always fused here,
            and `differentiable` lets gradients flow through them.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.SGD([x], lr=0.1, momentum=0.5)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([1.2080], requires_grad=True)
    """

    _rule = "sgd"
    _scalars = ()
    _late_options: ClassVar = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0,
                 dampening: float = 0, weight_decay: float | Tensor = 0, nesterov: bool = False, *,
                 maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:  # fmt: skip
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and no dampening, got "
                             f"momentum {momentum} and dampening {dampening}")  # fmt: skip
        names = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
        super().__init__(params, options(locals(), names))

    def _states(self, group):
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _options(self, group, first=False):
        return (
            group["lr"],
            group["momentum"],
            group["dampening"],
            group["weight_decay"],
            group["nesterov"],
            group["maximize"],
            first,
        )

    def _step_group(self, group):
        params, states = group["params"], self._states(group)
        step = self._step_of(group)
        missing = step("sgd", params, self.state, (), states, self._options(group))
        if missing is None:
            return
        if _cuda.is_capturing():
            return self._capture_first(group, missing, states)
        # Those without a buffer take their first step by a rule of its own.
        new = set(missing)
        with self._lasting(missing, group):
            for p in missing:
                buffer = _C.empty_like(p, memory_format=_C.preserve_format)
                self.state[p]["momentum_buffer"] = buffer
        old = [p for p in params if p not in new]
        step("sgd", missing, self.state, (), states, self._options(group, first=True))
        step("sgd", old, self.state, (), states, self._options(group))

    def _step_sparse(self, p, group):
        grad = -p.grad if group["maximize"] else p.grad
        if group["weight_decay"] != 0:
            raise RuntimeError(
                "SGD: weight_decay does not go with sparse gradients: it would change all elements"
            )
        if group["momentum"] != 0:
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            if grad.is_sparse:  # the buffer keeps one row per index
                grad = grad.coalesce()
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.clone()
            else:
                buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        p.add_(grad, alpha=-group["lr"])

    def _capture_first(self, group, missing, states):
        # Every replay would be the first step; from buffers of zeros the usual rule comes to the
        # same, unless dampening is what makes the first step differ.
        if group["dampening"] != 0:
            raise RuntimeError(
                "SGD.step: a CUDA graph is being captured before the first step, which differs "
                "from later ones (dampening); take a step before the capture"
            )
        with _cuda.BesideCapture():
            for p in missing:
                buffer = _C.zeros_like(p, memory_format=_C.preserve_format)
                self.state[p]["momentum_buffer"] = buffer
        _step("sgd", group["params"], self.state, (), states, self._options(group))
