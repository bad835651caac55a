"""A schedule that follows a measure of success."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from rushlight._C import Tensor
from rushlight.optim.lr_scheduler.base import (
    EPOCH_WARNING,
    LRScheduler,
    check_optimizer,
    set_value,
    values_of,
)
from rushlight.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when a measure has not become better for more than ``patience`` epochs.

    step() takes the measure, such as the loss on validation data.

    Arguments:
        optimizer: whose learning rates are set.
        mode: 'min' if less is better, 'max' if more is.
        factor: what the rate is multiplied by.
        patience: how many epochs without a better measure are borne.
        threshold, threshold_mode: what counts as better: by a part of the best ('rel') or by a
            difference ('abs').
        cooldown: epochs after a change in which nothing is counted.
        min_lr: the smallest rate, one number or one per group.
        eps: smaller changes are not made.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1)
        >>> rates = []
        >>> for loss in (3.0, 2.0, 2.0, 2.0, 2.0):
        ...     scheduler.step(loss)
        ...     rates.append(optimizer.param_groups[0]["lr"])
        >>> rates
        [1.0, 1.0, 1.0, 0.1, 0.1]
    """

    def __init__(self, optimizer: Optimizer, mode: Literal["min", "max"] = "min",
                 factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
                 threshold_mode: Literal["rel", "abs"] = "rel", cooldown: int = 0,
                 min_lr: Sequence[float] | float = 0, eps: float = 1e-8) -> None:  # fmt: skip
        name = "ReduceLROnPlateau"
        if factor >= 1.0:
            raise ValueError(f"{name}: factor must be below 1, got {factor}")
        check_optimizer(name, optimizer)
        self.factor = factor
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != groups:
                raise ValueError(f"{name}: there are {groups} parameter groups, but "
                                 f"{len(min_lr)} values in min_lr")  # fmt: skip
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self):
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes note of the measure, and reduces the rates where it is time."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    def _reduce_lr(self):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(f"ReduceLROnPlateau: the optimizer now has {len(groups)} "
                                   f"parameter groups, but there are {len(self.min_lrs)} values "
                                   "in scheduler.min_lrs; set it anew")  # fmt: skip
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_value(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Is it too soon after a reduction to count bad epochs?"""
        return self.cooldown_counter > 0

    def is_better(self, a: Tensor, best: Any) -> bool:
        """Is a better than best by more than the threshold?"""
        return self._is_better(a, best)

    def _is_better(self, a, best):
        if self.threshold_mode == "rel":
            if self.mode == "min":
                return a < best * (1.0 - self.threshold)
            return a > best * (self.threshold + 1.0)
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold

    def _init_is_better(self, mode, threshold, threshold_mode):
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode must be 'min' or 'max', not {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', "
                             f"not {threshold_mode!r}")  # fmt: skip
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
