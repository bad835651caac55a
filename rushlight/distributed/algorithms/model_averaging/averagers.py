"""When the models of the ranks are averaged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._names.missing import names_missing_from

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Averages parameters over a group; ``step`` counts the calls."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Called after each step of the optimiser."""


class PeriodicModelAverager(ModelAverager):
    """The mean over the group every ``period`` steps, once ``warmup_steps`` have gone."""

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps must not be negative, got {warmup_steps}")
        if period < 1:
            raise ValueError(f"period must be at least 1, got {period}")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Takes parameters, or the optimiser's groups of them."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average(params, self.process_group)
        self.step += 1


def average(params: Iterable[Any], group: Any) -> None:
    """The mean of parameters that had gradients, with one collective per dtype."""
    flat: dict[Any, list[Any]] = {}
    for entry in params:
        for param in entry["params"] if isinstance(entry, dict) else [entry]:
            if param.grad is not None:
                flat.setdefault(param.dtype, []).append(param)
    with rushlight.no_grad():
        for tensors in flat.values():
            together = rushlight.cat([t.detach().reshape(-1) for t in tensors])
            dist.all_reduce(together, dist.ReduceOp.AVG, group)
            parts = together.split([t.numel() for t in tensors])
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.copy_(part.view_as(tensor))


__getattr__ = names_missing_from(__name__)
