"""DistributedDataParallel: one copy of a model per process, gradients averaged over all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

import rushlight
from rushlight import distributed
from rushlight.distributed import ReduceOp
from rushlight.distributed._world import world
from rushlight.nn.modules import Module
from rushlight.nn.parallel._reducer import MIB, Reducer

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Trains one model in several processes: each has a copy, computes on its own part of a batch,
    and gets the mean of all processes' gradients, sent while backward still runs.

    The loss of each process should be the mean over its part. ``.module`` is the model itself.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None,
                 dim: int = 0, broadcast_buffers: bool = True, init_sync: bool = True,
                 process_group: Any = None, bucket_cap_mb: float | None = None,
                 find_unused_parameters: bool = False, check_reduction: bool = False,
                 gradient_as_bucket_view: bool = False, static_graph: bool = False,
                 delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None,
                 mixed_precision: Any = None, device_mesh: Any = None,
                 skip_all_reduce_unused_params: bool = False) -> None:  # fmt: skip
        super().__init__()
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
        ):
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not there yet")
        self.process_group = world.member(process_group, "DistributedDataParallel").group
        self.module = module
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.device_ids = self.output_device = None
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._named = [
            (name, p)
            for name, p in module.named_parameters()
            if p.requires_grad and name not in ignored
        ]
        self._check(device_ids, output_device)
        self._shared_buffers = [b for n, b in module.named_buffers() if n not in ignored]
        if init_sync:
            self._check_same_model()
            kept = [p for n, p in module.named_parameters() if n not in ignored]
            self._copy_from_first([*kept, *self._shared_buffers])
        self._reducer = Reducer(
            self._named,
            self.process_group,
            average=self._average,
            largest=self._largest,
            agree=self._agree,
            cap=int((25 if bucket_cap_mb is None else bucket_cap_mb) * MIB),
            find_unused=find_unused_parameters or static_graph,
            as_views=gradient_as_bucket_view,
        )

    def _check(self, device_ids, output_device):
        if not self._named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        for name, parameter in self._named:
            if parameter.device.type != "cpu":
                raise NotImplementedError(
                    f"DistributedDataParallel: {name} is on {parameter.device}, and process groups "
                    "work with CPU tensors only so far; nn.DataParallel uses the GPUs of one "
                    "process"
                )
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel: device_ids and output_device are for modules on GPUs, "
                f"and this one is on the CPU; got {device_ids} and {output_device}"
            )

    def _average(self, tensor):
        return distributed.all_reduce(tensor, ReduceOp.AVG, self.process_group, async_op=True)

    def _largest(self, tensor):
        distributed.all_reduce(tensor, ReduceOp.MAX, self.process_group)

    def _agree(self, order):
        tensor = rushlight.tensor(order, dtype=rushlight.int64)
        distributed.broadcast(tensor, group=self.process_group, group_src=0)
        return tensor.tolist()

    def _check_same_model(self):
        """Different models would exchange gradients of the wrong parameters."""
        if self.process_group.size() == 1:
            return
        mine = [(name, tuple(p.shape), str(p.dtype)) for name, p in self._named]
        all_models: list[Any] = [None] * self.process_group.size()
        distributed.all_gather_object(all_models, mine, self.process_group)
        for rank, other in enumerate(all_models):
            if other == mine:
                continue
            pairs = zip(mine, other, strict=False)
            here, there = next(((a, b) for a, b in pairs if a != b), (len(mine), len(other)))
            raise RuntimeError(
                "DistributedDataParallel: the ranks have different models: rank "
                f"{self.process_group.rank()} has {here} where rank {rank} has {there}"
            )

    def _copy_from_first(self, tensors):
        """Rank 0's values, one message per dtype."""
        if self.process_group.size() == 1:
            return
        kinds: dict[Any, list[Any]] = {}
        for tensor in tensors:
            kinds.setdefault(tensor.dtype, []).append(tensor)
        with rushlight.no_grad():
            for same in kinds.values():
                flat = rushlight.cat([t.reshape(-1) for t in same])
                distributed.broadcast(flat, group=self.process_group, group_src=0)
                for tensor, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
                    tensor.copy_(part.view(tensor.shape))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.require_forward_param_sync and self.broadcast_buffers and self._shared_buffers:
            self._copy_from_first(self._shared_buffers)
        self.require_forward_param_sync = (
            rushlight.is_grad_enabled() and self.require_backward_grad_sync
        )
        output = self.module(*inputs, **kwargs)
        if self.require_forward_param_sync:
            self._reducer.prepare()
        return output

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, forward and backward passes add to each process's own gradients; the next pass
        outside averages the sums."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not there yet: ranks with unequal numbers of batches."""
        raise NotImplementedError(
            "DistributedDataParallel.join: not there yet; give all ranks equally many batches, as "
            "DistributedSampler does"
        )

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Not there yet: another way to average."""
        raise NotImplementedError("DistributedDataParallel.register_comm_hook: not there yet")
