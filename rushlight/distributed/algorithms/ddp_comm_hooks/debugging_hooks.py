"""The hook that does nothing, where PyTorch has it."""

from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import noop_hook

__all__ = ["noop_hook"]
