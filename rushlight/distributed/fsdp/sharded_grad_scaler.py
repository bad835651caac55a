"""A GradScaler for parameters that are cut over the ranks."""

from __future__ import annotations

from typing import Any

from rushlight import distributed as dist
from rushlight.amp import GradScaler
from rushlight.distributed.tensor._dtensor import local_of

__all__ = ["ShardedGradScaler"]


class _Local:
    """A parameter as this rank holds it, for the scaler's loop."""

    def __init__(self, parameter: Any) -> None:
        self.grad = None if parameter.grad is None else local_of(parameter.grad)


class _LocalParameters:
    def __init__(self, optimizer: Any) -> None:
        self.param_groups = [
            {"params": [_Local(p) for p in group["params"]]} for group in optimizer.param_groups
        ]


class ShardedGradScaler(GradScaler):
    """Like ``amp.GradScaler``; a gradient that is not finite on one rank is seen by all, so that
    all leave the same step out.

    >>> from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> ShardedGradScaler(enabled=False).is_enabled()
    False
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
        growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
        process_group: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            device, init_scale=init_scale, growth_factor=growth_factor,
            backoff_factor=backoff_factor, growth_interval=growth_interval, enabled=enabled,
        )  # fmt: skip
        self.process_group = process_group

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        found = super()._unscale_grads_(
            _LocalParameters(optimizer), inv_scale, found_inf, allow_fp16
        )
        # A rank may hold no part of any parameter, and takes part all the same.
        device = inv_scale.device
        worst = found_inf.to(device=device, copy=True)
        for value in found.values():
            worst = worst.maximum(value.to(device))
        dist.all_reduce(worst, dist.ReduceOp.MAX, self.process_group)
        return {place: worst.to(place) for place in [*found, device]}
