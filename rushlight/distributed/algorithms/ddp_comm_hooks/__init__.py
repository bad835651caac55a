"""Other ways to average the gradients of DistributedDataParallel."""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable
from typing import Any

from rushlight._names.missing import fill
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _hook(function: Callable[..., Any]) -> Any:
    hook = functools.partial(function)
    if sys.version_info >= (3, 11):  # since 3.13 a partial is a method of an Enum unless it says:
        return enum.member(hook)
    return hook


class DDPCommHookType(enum.Enum):
    """The hooks by name."""

    ALLREDUCE = _hook(default_hooks.allreduce_hook)
    FP16_COMPRESS = _hook(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _hook(default_hooks.bf16_compress_hook)
    POWER_SGD = _hook(powerSGD_hook.powerSGD_hook)
    NOOP = _hook(default_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Lets a DistributedDataParallel average with one of the hooks."""
    model.register_comm_hook(state, comm_hook_type.value)


fill(globals())
