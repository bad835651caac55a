"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.optim.lr_scheduler.base import LRScheduler, set_value, values_of
from rushlight.optim.lr_scheduler.plateau import ReduceLROnPlateau
from rushlight.optim.optimizer import Optimizer


def _check_schedulers(name, schedulers, optimizer):
    if len(schedulers) < 1:
        raise ValueError(f"{name}: expected at least one scheduler")
    optimizer = schedulers[0].optimizer if optimizer is None else optimizer
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name}: element {i} has no optimizer, so it is no scheduler "
                            f"({type(scheduler).__name__})")  # fmt: skip
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(f"{name}: element {i} is a ReduceLROnPlateau, whose step() needs a "
                             "measure; step it yourself")  # fmt: skip
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name}: element {i} ({type(scheduler).__name__}) belongs to another "
                             "optimizer")  # fmt: skip
    return optimizer


class _Combined(LRScheduler):
    if TYPE_CHECKING:
        _schedulers: Sequence[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser, with the states of the schedulers inside."""
        state = super().state_dict()
        del state["_schedulers"]  # and last among the keys, where PyTorch has them
        return state | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave."""
        rest = {key: value for key, value in state_dict.items() if key != "_schedulers"}
        self.__dict__.update(rest)
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Combined):
    """One scheduler after the other; the next begins, from its epoch 0, at each milestone.

    Arguments:
        optimizer: whose learning rates are set.
        schedulers: in their order.
        milestones: the epochs at which the next one begins.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> warmup = optim.lr_scheduler.LinearLR(optimizer, 0.25, total_iters=3)
        >>> decay = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> scheduler = optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[3])
        >>> rates = []
        >>> for epoch in range(5):
        ...     rates.append(scheduler.get_last_lr()[0])
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [0.25, 0.5, 0.75, 1.0, 0.5]
    """

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler],
                 milestones: Sequence[int], last_epoch: int = -1) -> None:  # fmt: skip
        name = "SequentialLR"
        _check_schedulers(name, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"{name}: {len(schedulers)} schedulers need {len(schedulers) - 1} "
                             f"milestones, got {len(milestones)}")  # fmt: skip
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Making the schedulers has stepped each of them once: start over, with the first alone.
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Takes back the first step of every scheduler inside."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for s in scheduler._schedulers:
                self.recursive_undo(s)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Goes on by one."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedulers at once, each working on what the one before made of the rate.

    Arguments:
        schedulers: all of the same optimizer.
        optimizer: that optimizer; None takes it from the schedulers.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> parts = [optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        ...          optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)]
        >>> scheduler = optim.lr_scheduler.ChainedScheduler(parts, optimizer=optimizer)
        >>> rates = []
        >>> for epoch in range(3):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 0.5, 0.025]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self.optimizer = _check_schedulers("ChainedScheduler", schedulers, optimizer)
        self._schedulers = schedulers
        self._last_lr = values_of(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Goes on by one."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self.optimizer, "lr")
