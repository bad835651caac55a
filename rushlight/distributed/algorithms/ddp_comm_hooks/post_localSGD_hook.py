"""Local SGD: after some steps, gradients are averaged within a part of the ranks only, and the
models of all are averaged now and then (optim.PostLocalSGDOptimizer)."""

from __future__ import annotations

from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """From step ``start_localSGD_iter`` on, gradients are averaged within ``subgroup`` (None: the
    ranks of this machine), or not at all without ``post_local_gradient_allreduce``."""

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Counts the steps by their last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Future:
    """The mean over all ranks at first, over the subgroup later."""
    from rushlight import distributed as dist

    is_local = state.iter >= state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if not is_local:
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        future = Future()
        future.set_result(bucket.buffer())
        return future
    if state.subgroup is None:
        state.subgroup, _ = dist.new_subgroups()
    return allreduce_hook(state.subgroup, bucket)


__getattr__ = names_missing_from(__name__)
