"""L-BFGS: a quasi-Newton method with limited memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import enable_grad, no_grad
from rushlight.optim._rule import check_lr
from rushlight.optim.optimizer import Optimizer, ParamsT, _Loss

__all__ = ["LBFGS"]

_SUFFICIENT_DECREASE = 1e-4
_CURVATURE = 0.9
_SHORTEST_BRACKET = 1e-9


@dataclass
class _Point:
    """A trial along the line: how far, the loss, the gradient and the slope there."""

    t: float
    loss: float
    grad: Tensor
    slope: float


def _cubic_minimum(a, b, low, high):
    """Where the cubic through two points with these slopes is least, within [low, high]."""
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    if a.t > b.t:
        a, b = b, a
    denominator = b.slope - a.slope + 2 * d2
    if denominator == 0:
        return (low + high) / 2
    return min(max(b.t - (b.t - a.t) * ((b.slope + d2 - d1) / denominator), low), high)


class _LineSearch:
    """Finds a step that satisfies the strong Wolfe conditions: first a bracket, then inside it."""

    def __init__(self, evaluate: Any, start: _Point, reach: Any, max_trials: Any) -> None:
        self.evaluate = evaluate  # t -> _Point
        self.start = start
        self.reach = reach  # the largest component of the direction
        self.max_trials = max_trials
        self.trials = 0

    def _try(self, t):
        return self.evaluate(t)

    def _too_high(self, point):
        line = self.start.loss + _SUFFICIENT_DECREASE * point.t * self.start.slope
        return point.loss > line

    def _is_flat(self, point):
        return abs(point.slope) <= -_CURVATURE * self.start.slope

    def search(self, t: float) -> Any:
        """The accepted point, and the number of evaluations."""
        bracket, done = self._bracket(t)
        evaluations = self.trials + 1
        if not done and self.trials < self.max_trials:
            found = self._zoom(bracket)
            evaluations = self.trials + 1
            return found, evaluations
        return min(bracket, key=lambda point: point.loss), evaluations

    def _bracket(self, t):
        previous, point = self.start, self._try(t)
        while self.trials < self.max_trials:
            if self._too_high(point) or (self.trials > 1 and point.loss >= previous.loss):
                return [previous, point], False
            if self._is_flat(point):
                return [point], True
            if point.slope >= 0:
                return [previous, point], False
            nearest, farthest = point.t + 0.01 * (point.t - previous.t), point.t * 10
            t = _cubic_minimum(previous, point, nearest, farthest)
            previous, point = point, self._try(t)
            self.trials += 1
        return [self.start, point], False

    def _zoom(self, bracket):
        low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        slow = False
        while self.trials < self.max_trials:
            left, right = sorted((bracket[0].t, bracket[1].t))
            if (right - left) * self.reach < _SHORTEST_BRACKET:
                break
            t, slow = self._next_trial(bracket, left, right, slow)
            point = self._try(t)
            self.trials += 1
            if self._too_high(point) or point.loss >= bracket[low].loss:
                bracket[high] = point
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            done = self._is_flat(point)
            if not done and point.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
            if done:
                break
        return bracket[low]

    @staticmethod
    def _next_trial(bracket, left, right, slow):
        """Where to look next; a trial near an end, twice in a row, is moved inwards."""
        t = _cubic_minimum(*bracket, left, right)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) >= margin:
            return t, False
        if slow or t >= right or t <= left:
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            return t, False
        return t, True


class LBFGS(Optimizer):
    """L-BFGS, which needs a closure that computes the loss and its gradients anew.

    Takes one parameter group only. ``line_search_fn`` is None or "strong_wolfe".

    For smooth problems that fit into one batch.

    Arguments:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that make groups with
            settings of their own.
        lr: the length of a step.
        max_iter: iterations per call of step().
        max_eval: calls of the closure per call of step(); None is 1.25 * max_iter.
        tolerance_grad, tolerance_change: stop when gradient or change are smaller.
        history_size: how many past steps are kept.
        line_search_fn: 'strong_wolfe', or None for steps of length lr.

    Example:
        >>> x = rl.tensor([4.0], requires_grad=True)
        >>> optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((x - 1) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> first = optimizer.step(closure)
        >>> x
        tensor([1.], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1, max_iter: int = 20,
                 max_eval: int | None = None, tolerance_grad: float = 1e-7,
                 tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:  # fmt: skip
        check_lr("LBFGS", lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS: there can be only one parameter group, "
                             f"got {len(self.param_groups)}")  # fmt: skip

    @property
    def _params(self):
        return self.param_groups[0]["params"]

    def _flat_grad(self):
        parts = []
        for p in self._params:
            part = _C.zeros_like(p) if p.grad is None else p.grad
            part = _C.view_as_real(part) if part.is_complex() else part
            parts.append(part.reshape(-1))
        return _C.cat(parts, 0)

    def _move(self, t, direction):
        offset = 0
        for p in self._params:
            p = _C.view_as_real(p) if p.is_complex() else p
            p.add_(direction[offset : offset + p.numel()].view(p.shape), alpha=float(t))
            offset += p.numel()

    def _evaluate(self, closure, at, t, direction):
        """The point t along the direction; the parameters come back to where they were."""
        self._move(t, direction)
        loss = float(closure())
        grad = self._flat_grad()
        for p, value in zip(self._params, at, strict=True):
            p.copy_(value)
        return _Point(t, loss, grad, float(grad.dot(direction)))

    def _remember(self, state, group, flat_grad):
        """Adds the last step to the memory of curvature."""
        y = flat_grad.sub(state["prev_flat_grad"])
        s = state["d"].mul(state["t"])
        ys = y.dot(s)
        if float(ys) <= 1e-10:
            return
        if len(state["old_dirs"]) == group["history_size"]:
            for key in ("old_dirs", "old_stps", "ro"):
                state[key].pop(0)
        state["old_dirs"].append(y)
        state["old_stps"].append(s)
        state["ro"].append(1.0 / ys)
        state["H_diag"] = ys / y.dot(y)

    def _direction(self, state, group, flat_grad):
        """Minus the gradient times the approximate inverse Hessian, by two loops over memory."""
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        al = state.setdefault("al", [None] * group["history_size"])
        d = flat_grad.neg()
        for i in reversed(range(len(dirs))):
            al[i] = steps[i].dot(d) * ro[i]
            d.add_(dirs[i], alpha=-float(al[i]))
        d = d.mul(state["H_diag"])
        for i in range(len(dirs)):
            be = dirs[i].dot(d) * ro[i]
            d.add_(steps[i], alpha=float(al[i] - be))
        return d

    @no_grad()
    def step(self, closure: Callable[[], _Loss]) -> _Loss:  # type: ignore[override]
        """Up to ``max_iter`` iterations; returns the loss before them."""
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        lr = group["lr"]  # as it was given: the state keeps a step of the same kind
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("LBFGS: line_search_fn must be None or 'strong_wolfe', "
                               f"not {group['line_search_fn']!r}")  # fmt: skip
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss = float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        flat_grad = self._flat_grad()
        if float(flat_grad.abs().max()) <= group["tolerance_grad"]:
            return first_loss

        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1, d=flat_grad.neg())
            else:
                self._remember(state, group, flat_grad)
                state["d"] = self._direction(state, group, flat_grad)
            state["prev_flat_grad"] = flat_grad.clone()
            state["prev_loss"] = loss
            d = state["d"]
            t = min(1.0, 1.0 / float(flat_grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            state["t"] = t
            slope = float(flat_grad.dot(d))
            if slope > -group["tolerance_change"]:
                break

            last = iteration == group["max_iter"]
            used = 0
            if group["line_search_fn"] is not None:
                at = [p.clone() for p in self._params]
                start = _Point(0.0, loss, flat_grad.clone(), slope)
                search = _LineSearch(
                    lambda t, at=at, d=d: self._evaluate(closure, at, t, d),
                    start,
                    float(d.abs().max()),
                    group["max_eval"] - evaluations,
                )
                point, used = search.search(t)
                loss, flat_grad, state["t"] = point.loss, point.grad, point.t
                self._move(state["t"], d)
            else:
                self._move(t, d)
                if not last:
                    loss = float(closure())
                    flat_grad = self._flat_grad()
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if last or evaluations >= group["max_eval"]:
                break
            if float(flat_grad.abs().max()) <= group["tolerance_grad"]:
                break
            if float(d.mul(state["t"]).abs().max()) <= group["tolerance_change"]:
                break
            if abs(loss - state["prev_loss"]) < group["tolerance_change"]:
                break
        return first_loss
