"""The base class of all schedules."""

from __future__ import annotations

import contextlib
import functools
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from rushlight._C import Tensor
from rushlight.optim.optimizer import Optimizer

_T = TypeVar("_T")

EPOCH_WARNING = (
    "scheduler.step(): 'epoch' is deprecated; without it the rate follows from the one before, "
    "with it from a closed form where there is one"
)


def check_optimizer(name: str, optimizer: Optimizer) -> None:
    """Schedules work on optimisers only."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: expected an Optimizer, not {type(optimizer).__name__}")


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value a parameter group, from a list or from a single value."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        value = [value] * groups
    elif len(value) != groups:
        raise ValueError(f"{name}: there are {groups} parameter groups, "
                         f"but {len(value)} values")  # fmt: skip
    return [copy_of(v) for v in value]


def copy_of(value: _T) -> _T:
    """A tensor's clone; numbers as they are."""
    return value.clone() if isinstance(value, Tensor) else value  # type: ignore[return-value]


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of all groups, cut off from later changes."""
    return [copy_of(group[key]) for group in optimizer.param_groups]


def set_value(group: Any, key: Any, value: Any) -> None:
    """Sets an option; a tensor keeps its identity and takes the new value."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


def function_state(function: Callable[..., Any]) -> dict[str, Any] | None:
    """What a schedule saves of a user's callable: nothing of a function, an object's fields."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()


def _note_steps(optimizer):
    """Lets the optimiser remember that it was stepped; its step() stays as it is otherwise."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    reference = weakref.ref(optimizer)  # the optimiser must not hold itself
    function = optimizer.step.__func__

    @functools.wraps(function)
    def step(*args, **kwargs):
        opt = reference()
        opt._opt_called = True
        return function(opt, *args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step


class LRScheduler:
    """Sets the learning rate of every group, once per call of step().

    A subclass defines ``get_lr``, the rates at ``self.last_epoch``, and may define
    ``_get_closed_form_lr``, the same without looking at the rates before.

    A scheduler of your own overrides get_lr(), which returns a rate per group. Call step() after
    the optimizer's, once per epoch or batch.

    Arguments:
        optimizer: whose learning rates are set.
        last_epoch: the epoch to go on from; -1 starts afresh.

    Example:
        >>> class Halving(optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [rate * 0.5**self.last_epoch for rate in self.base_lrs]
        >>> optimizer = optim.SGD([rl.zeros(1)], lr=1.0)
        >>> scheduler = Halving(optimizer, last_epoch=-1)
        >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        check_optimizer(name, optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copy_of(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{name}: param_groups[{i}] has no 'initial_lr', which last_epoch={last_epoch} "
                    "needs: load the optimizer's state first, or leave last_epoch out for a new run"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float | Tensor]:
        """The rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[float | Tensor]:
        """The rates at ``self.last_epoch``; for step() only."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr: a subclass must define it")

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one, or to ``epoch``."""
        if self._step_count == 1:
            self._warn_about_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _warn_about_order(self):
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn("optimizer.step was replaced after the scheduler was made; make sure "
                          "that it is called before scheduler.step()",
                          UserWarning, stacklevel=3)  # fmt: skip
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn("scheduler.step() was called before optimizer.step(), so that the first "
                          "learning rate of the schedule is skipped; call them the other way "
                          "round", UserWarning, stacklevel=3)  # fmt: skip

    def _update_lr(self, epoch=None):
        with self._computing():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", None)
                values = self.get_lr() if closed_form is None else closed_form()
        self._set(values)

    def _set(self, values):
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    @contextlib.contextmanager
    def _computing(self):
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _check_caller(self):
        if not self._get_lr_called_within_step:
            warnings.warn("get_lr() is for step() only, and what it returns may not be the rate "
                          "in use; call get_last_lr()", UserWarning, stacklevel=3)  # fmt: skip

    def _scaled(self, factor):
        """The present rates, times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self):
        return values_of(self.optimizer, "lr")


class _LRScheduler(LRScheduler):
    """The old name."""
