"""Other ways to average the gradients of DistributedDataParallel."""

from __future__ import annotations

import enum
import functools
from typing import Any

from rushlight._names.missing import fill
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """The hooks by name."""

    ALLREDUCE = functools.partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = functools.partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = functools.partial(default_hooks.bf16_compress_hook)
    POWER_SGD = functools.partial(powerSGD_hook.powerSGD_hook)
    NOOP = functools.partial(default_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Lets a DistributedDataParallel average with one of the hooks."""
    model.register_comm_hook(state, comm_hook_type.value)


fill(globals())
