"""Schedules that follow a cosine."""

from __future__ import annotations

import math

from rushlight._C import Tensor
from rushlight.optim.lr_scheduler.base import LRScheduler
from rushlight.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to ``eta_min`` in ``T_max`` epochs, and back.

    Arguments:
        optimizer: whose learning rates are set.
        T_max: epochs from the initial rate to the smallest.
        eta_min: the smallest rate.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4, eta_min=0.1)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 0.8682, 0.55, 0.2318]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        if self._is_initial:
            return self._unchanged()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # Just past the minimum, where a ratio to the last rate would divide by zero.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (base - self.eta_min) * rise
                for base, group in zip(self.base_lrs, groups, strict=True)
            ]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [
            now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups
        ]  # fmt: skip

    def _get_closed_form_lr(self):
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the initial rate to ``eta_min`` by a cosine, again and again, in ever longer periods.

    The first period has ``T_0`` epochs, each other one ``T_mult`` times the one before. Epochs may
    be fractions: ``scheduler.step(epoch + i / batches)``.

    Arguments:
        optimizer: whose learning rates are set.
        T_0: length of the first period.
        T_mult: each period is so many times longer than the one before.
        eta_min: the smallest rate.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2,
        ...     eta_min=0.1)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 0.55, 1.0, 0.55]
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:  # fmt: skip
        name = type(self).__name__
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"{name}: T_0 must be a positive int, got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"{name}: T_mult must be an int of at least 1, got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"{name}: eta_min must be a number, not {type(eta_min).__name__}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.T_cur`` of the present period."""
        self._check_caller()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one, or to ``epoch``."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"{type(self).__name__}.step: epoch must not be negative, "
                                 f"got {epoch}")  # fmt: skip
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        with self._computing():
            values = self.get_lr()
        self._set(values)

    def _go_to(self, epoch):
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # n periods are over; they took T_0 (T_mult^n - 1) / (T_mult - 1) epochs.
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
