"""PostLocalSGDOptimizer: steps, and averages of models between ranks."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps of ``optim``, after each of which ``averager`` may average the parameters over the
    ranks. Goes with ``post_localSGD_hook`` of DistributedDataParallel."""

    def __init__(self, optim: Optimizer, averager: Any) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> dict[Any, Any]:  # type: ignore[override]
        """That of the optimiser inside."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """That of the optimiser inside, and how far the averager has counted."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What state_dict gave; without a count, the averager begins again."""
        rest = dict(state_dict)
        step = rest.pop("step", None)
        if step is None:
            warnings.warn(
                "PostLocalSGDOptimizer.load_state_dict: no count of the averager's steps; it "
                "begins again at 0",
                stacklevel=2,
            )
        self.optim.load_state_dict(rest)
        self.averager.step = step or 0

    def step(self, closure: Any = None) -> float | None:  # type: ignore[override]
        """One step, and the averager's turn."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optim.add_param_group(param_group)


__getattr__ = names_missing_from(__name__)
