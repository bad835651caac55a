"""Schedules that multiply the rate by a factor now and then."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from rushlight._C import Tensor
from rushlight.optim.lr_scheduler.base import LRScheduler, function_state
from rushlight.optim.optimizer import Optimizer


class _Functions(LRScheduler):
    """Schedules by a function of the epoch, one per group."""

    def __init__(self, optimizer: Optimizer,
                 lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
                 last_epoch: int = -1) -> None:  # fmt: skip
        groups = len(optimizer.param_groups)
        functions = lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda] * groups
        if len(functions) != groups:
            raise ValueError(f"{type(self).__name__}: there are {groups} parameter groups, "
                             f"but {len(functions)} functions")  # fmt: skip
        self.lr_lambdas = list(functions)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; functions are not saved, callable objects' fields are."""
        state = super().state_dict()
        del state["lr_lambdas"]  # and last among the keys, where PyTorch has them
        state["lr_lambdas"] = [function_state(f) for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave; the functions stay those given to __init__."""
        rest = {key: value for key, value in state_dict.items() if key != "lr_lambdas"}
        self.__dict__.update(rest)
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_Functions):
    """The initial rate times a function of the epoch.

    Arguments:
        optimizer: whose learning rates are set.
        lr_lambda: a function of the epoch, or one per group.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: 0.5**epoch)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 0.5, 0.25, 0.125]
    """

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        return [
            base * function(self.last_epoch)
            for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(_Functions):
    """The last rate times a function of the epoch.

    Arguments:
        optimizer: whose learning rates are set.
        lr_lambda: a function of the epoch, or one per group.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.MultiplicativeLR(optimizer, lr_lambda=lambda epoch: 0.5)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer,
                 lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
                 last_epoch: int = -1) -> None:  # fmt: skip
        for f in lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda]:
            if not callable(f):
                raise TypeError("MultiplicativeLR: lr_lambda must be a function, "
                                f"not {type(f).__name__}")  # fmt: skip
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        if self._is_initial:
            return self._unchanged()
        return [
            group["lr"] * function(self.last_epoch)
            for group, function in zip(self.optimizer.param_groups, self.lr_lambdas, strict=True)
        ]


class StepLR(LRScheduler):
    """Times ``gamma`` every ``step_size`` epochs.

    Arguments:
        optimizer: whose learning rates are set.
        step_size: how many epochs between two changes.
        gamma: the factor.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._unchanged()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self):
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at each of the milestones.

    Arguments:
        optimizer: whose learning rates are set.
        milestones: epochs at which the rate changes.
        gamma: the factor.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.1)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 0.1, 0.1, 0.01]
    """

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
                 last_epoch: int = -1) -> None:  # fmt: skip
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        if self.last_epoch not in self.milestones:
            return self._unchanged()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times ``factor`` during the first ``total_iters`` epochs.

    Arguments:
        optimizer: whose learning rates are set.
        factor: what the rate is multiplied by at first.
        total_iters: for how many epochs.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
                 last_epoch: int = -1) -> None:  # fmt: skip
        if factor > 1.0 or factor < 0:
            raise ValueError(f"ConstantLR: factor must be in [0, 1], got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch != self.total_iters:
            return self._unchanged()
        return self._scaled(1.0 / self.factor)

    def _get_closed_form_lr(self):
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Times a factor that goes from ``start_factor`` to ``end_factor`` in a straight line.

    Arguments:
        optimizer: whose learning rates are set.
        start_factor: the factor at the first epoch.
        end_factor: the factor at the end.
        total_iters: after how many epochs that is.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [0.25, 0.5, 0.75, 1.0]
    """

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
                 total_iters: int = 5, last_epoch: int = -1) -> None:  # fmt: skip
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(f"LinearLR: start_factor must be in (0, 1], got {start_factor}")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"LinearLR: end_factor must be in [0, 1], got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._scaled(1.0 + rise / before)

    def _get_closed_form_lr(self):
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * done
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times ``gamma`` every epoch.

    Arguments:
        optimizer: whose learning rates are set.
        gamma: the factor.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        return self._unchanged() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Falls to 0 in ``total_iters`` epochs, as a power of what is left.

    Arguments:
        optimizer: whose learning rates are set.
        total_iters: when the rate is 0.
        power: 1 is a straight line.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step(); scheduler.step()
        >>> rates
        [1.0, 0.5625, 0.25, 0.0625]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch):
        return 1.0 - epoch / self.total_iters

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``."""
        self._check_caller()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        ratio = self._left(self.last_epoch) / self._left(self.last_epoch - 1)
        return self._scaled(ratio**self.power)

    def _get_closed_form_lr(self):
        factor = self._left(min(self.total_iters, self.last_epoch)) ** self.power
        return [base * factor for base in self.base_lrs]
