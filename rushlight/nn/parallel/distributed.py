"""DistributedDataParallel: needs a process group."""

from __future__ import annotations

from typing import Any

from rushlight.distributed import WHY, is_initialized
from rushlight.nn.modules import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """One copy of a model in each process; not there yet."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        if not is_initialized():
            raise ValueError(
                "DistributedDataParallel: there is no process group, so there is nothing to train "
                f"with: {WHY}. Use the module itself, or wrap it only if "
                "distributed.is_initialized()"
            )
        raise NotImplementedError(f"DistributedDataParallel: {WHY}")
