"""Schedules that move rate and momentum against each other."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rushlight._C import Tensor
from rushlight.optim.lr_scheduler.base import (
    LRScheduler,
    check_optimizer,
    function_state,
    per_group,
    set_value,
)
from rushlight.optim.optimizer import Optimizer


def _uses_beta1(name, optimizer):
    """Is the momentum the first beta? Raises when the optimiser has neither."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(f"{name}: {type(optimizer).__name__} has neither a momentum nor betas; "
                         "use cycle_momentum=False")  # fmt: skip
    return "betas" in optimizer.defaults


def _set_momentum(group, value, use_beta1):
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _start_momentums(optimizer, highest, lowest, use_beta1):
    for high, low, group in zip(highest, lowest, optimizer.param_groups, strict=True):
        _set_momentum(group, high, use_beta1)
        group["max_momentum"] = high
        group["base_momentum"] = low


def _constant(x):
    return 1.0


def _halving(x):
    return 1 / (2.0 ** (x - 1))


def _power(gamma, x):
    return gamma**x


class CyclicLR(LRScheduler):
    """Up and down between ``base_lr`` and ``max_lr``, a step per batch.

    ``mode``: "triangular", "triangular2" (the height halves with each cycle) or "exp_range" (it
    falls by ``gamma`` with each step); or a ``scale_fn`` of the cycle or of the iteration.

    Arguments:
        optimizer: whose learning rates are set.
        base_lr, max_lr: the two ends, one number for all groups or one per group.
        step_size_up: steps from the lower to the upper end.
        step_size_down: steps back; None is as many.
        mode: 'triangular', 'triangular2' (each cycle half as high) or 'exp_range' (times
            gamma**step).
        gamma: for 'exp_range'.
        scale_fn, scale_mode: a function of the 'cycle' or of the steps ('iterations') in place of
            mode.
        cycle_momentum, base_momentum, max_momentum: let momentum go the other way, between these
            ends.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0, momentum=0.9)
        >>> scheduler = optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, step_size_up=2)
        >>> rates = []
        >>> for step in range(5):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [0.1, 0.3, 0.5, 0.3, 0.1]
    """

    def __init__(self, optimizer: Optimizer, base_lr: float | Sequence[float],
                 max_lr: float | Sequence[float], step_size_up: int = 2000,
                 step_size_down: int | None = None,
                 mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
                 gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None,
                 scale_mode: Literal["cycle", "iterations"] = "cycle", cycle_momentum: bool = True,
                 base_momentum: float = 0.8, max_momentum: float = 0.9,
                 last_epoch: int = -1) -> None:  # fmt: skip
        check_optimizer("CyclicLR", optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("CyclicLR: base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("CyclicLR: max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', "
                             f"not {mode!r}, unless scale_fn is given")  # fmt: skip
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1("CyclicLR", optimizer)
            self.base_momentums = per_group("CyclicLR: base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("CyclicLR: max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _start_momentums(optimizer, self.max_momentums, self.base_momentums, self.use_beta1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self):
        if self._scale_fn_custom is not None:
            return
        if self.mode == "exp_range":
            self._scale_fn_ref = functools.partial(_power, self.gamma)
            self.scale_mode = "iterations"
        else:
            self._scale_fn_ref = _constant if self.mode == "triangular" else _halving
            self.scale_mode = "cycle"

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or at an iteration, by ``scale_mode``."""
        return (self._scale_fn_custom or self._scale_fn_ref)(x)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``; sets the momentums on the way."""
        self._check_caller()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        if x <= self.step_ratio:
            height = x / self.step_ratio
        else:
            height = (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                _set_momentum(group, high - (high - low) * height * scale, self.use_beta1)
        return [
            base + (high - base) * height * scale
            for base, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser and functions."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        custom = state["_scale_fn_custom"]
        state["_scale_fn_custom"] = None if custom is None else function_state(custom)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave; a scale_fn stays the one given to __init__."""
        saved = state_dict["_scale_fn_custom"]
        rest = {key: value for key, value in state_dict.items() if key != "_scale_fn_custom"}
        super().load_state_dict(rest)
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._init_scale_fn()


def _cosine_between(start, end, done):
    return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _line_between(start, end, done):
    return (end - start) * done + start


def _phase(end_step, lrs, momentums):
    return {
        "end_step": end_step,
        "start_lr": lrs[0],
        "end_lr": lrs[1],
        "start_momentum": momentums[0],
        "end_momentum": momentums[1],
    }


class OneCycleLR(LRScheduler):
    """One rise to ``max_lr`` and one long fall far below where it began, a step per batch.

    Arguments:
        optimizer: whose learning rates are set.
        max_lr: the highest rate, one number or one per group.
        total_steps: how many steps in all; or
        epochs, steps_per_epoch: their product.
        pct_start: the part of the steps in which the rate rises.
        anneal_strategy: 'cos' or 'linear'.
        cycle_momentum, base_momentum, max_momentum: let momentum fall while the rate rises,
            between these ends.
        div_factor: the first rate is max_lr / div_factor.
        final_div_factor: the last rate is the first / final_div_factor.
        three_phase: fall as long as it rose, then far below.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0, momentum=0.9)
        >>> scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5,
        ...     div_factor=10)
        >>> rates = []
        >>> for step in range(5):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     if step < 4: scheduler.step()
        >>> rates
        [0.1, 0.9505, 0.6113, 0.1883, 0.0]
    """

    def __init__(self, optimizer: Optimizer, max_lr: float | Sequence[float],
                 total_steps: int | None = None, epochs: int | None = None,
                 steps_per_epoch: int | None = None, pct_start: float = 0.3,
                 anneal_strategy: Literal["cos", "linear"] = "cos", cycle_momentum: bool = True,
                 base_momentum: float | Sequence[float] = 0.85,
                 max_momentum: float | Sequence[float] = 0.95, div_factor: float = 25.0,
                 final_div_factor: float = 1e4, three_phase: bool = False,
                 last_epoch: int = -1) -> None:  # fmt: skip
        check_optimizer("OneCycleLR", optimizer)
        self.optimizer = optimizer
        self.total_steps = self._count_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be a float in [0, 1], got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError("OneCycleLR: anneal_strategy must be 'cos' or 'linear', "
                             f"not {anneal_strategy!r}")  # fmt: skip
        self._schedule_phases = self._phases(pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("OneCycleLR: max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for high, group in zip(max_lrs, optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1("OneCycleLR", optimizer)
            highest = per_group("OneCycleLR: max_momentum", optimizer, max_momentum)
            lowest = per_group("OneCycleLR: base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                _start_momentums(optimizer, highest, lowest, self.use_beta1)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count_steps(total_steps, epochs, steps_per_epoch):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        given = {"total_steps": total_steps}
        if total_steps is None:
            given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        for key, value in given.items():
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"OneCycleLR: {key} must be a positive int, got {value}")
        return math.prod(given.values())

    def _phases(self, pct_start, three_phase):
        top = float(pct_start * self.total_steps) - 1
        last = self.total_steps - 1
        up = _phase(top, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
        if not three_phase:
            down = _phase(last, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))
            return [up, down]
        down = _phase(
            float(2 * pct_start * self.total_steps) - 2,
            ("max_lr", "initial_lr"),
            ("base_momentum", "max_momentum"),
        )
        tail = _phase(last, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum"))
        return [up, down, tail]

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``; sets the momentums on the way."""
        self._check_caller()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} is past the end of the schedule, which has "
                             f"{self.total_steps} steps")  # fmt: skip
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        done = (step - start) / (phase["end_step"] - start)
        between = _cosine_between if self._anneal_func_type == "cos" else _line_between
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(between(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, between(*ends, done), self.use_beta1)
        return rates
