"""DistributedDataParallel: one copy of a model per process, gradients averaged over all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import rushlight
from rushlight import distributed
from rushlight.distributed import ReduceOp
from rushlight.distributed._world import world
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.nn.modules import Embedding, EmbeddingBag, Module
from rushlight.nn.parallel._ordered import OrderedReducer
from rushlight.nn.parallel._reducer import MIB, Reducer
from rushlight.utils._pytree import tree_map

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module, Joinable):
    """Trains one model in several processes: each has a copy, computes on its own part of a batch,
    and gets the mean of all processes' gradients, sent while backward still runs.

    The loss of each process should be the mean over its part. ``.module`` is the model itself.

    With ``deterministic_world=V`` (a power of two), a step has V shards of its batch whatever the
    number of processes, and its gradients have the same bits on 1, 2, 4, ... V of them. A process
    runs forward and backward once per number in ``shards()``, and steps then.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None,
                 dim: int = 0, broadcast_buffers: bool = True, init_sync: bool = True,
                 process_group: Any = None, bucket_cap_mb: float | None = None,
                 find_unused_parameters: bool = False, check_reduction: bool = False,
                 gradient_as_bucket_view: bool = True, static_graph: bool = False,
                 delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None,
                 mixed_precision: Any = None, device_mesh: Any = None,
                 skip_all_reduce_unused_params: bool = False,
                 deterministic_world: int | None = None) -> None:  # fmt: skip
        super().__init__()
        Joinable.__init__(self)
        self._joined_active: int | None = None  # inside join: how many ranks have inputs left
        self._divides_by_active = False
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
        self.device_ids: list[int] | None = None
        self.output_device: Any = None
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
        self._reducer: Any
        self.deterministic_world = deterministic_world
        if deterministic_world is not None:
            unused = find_unused_parameters or static_graph
            self._reducer = OrderedReducer(
                self._named, self.process_group, deterministic_world, unused
            )
            return
        self._reducer = Reducer(
            self._named,
            self.process_group,
            average=self._average,
            factor=self._factor,
            largest=self._largest,
            agree=self._agree,
            cap=int((25 if bucket_cap_mb is None else bucket_cap_mb) * MIB),
            find_unused=find_unused_parameters or static_graph,
            as_views=gradient_as_bucket_view,
            sparse={
                id(p)
                for m in module.modules()
                if isinstance(m, (Embedding, EmbeddingBag)) and m.sparse
                for p in m.parameters(recurse=False)
            },
        )

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: list[str]
    ) -> None:
        """Parameters and buffers of these names are left to each process."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    @property
    def device_type(self) -> str:
        """The kind of device that the parameters are on."""
        return self._named[0][1].device.type

    @property
    def is_multi_device_module(self) -> bool:
        """Whether they are on several."""
        return len({p.device for _, p in self._named}) > 1

    def __getstate__(self) -> dict[str, Any]:
        """A copy, also in another process, gets the default group and hooks of its own."""
        if self.process_group is not distributed.group.WORLD:
            raise RuntimeError(
                "DistributedDataParallel: only a model of the default group can be copied or saved"
            )
        kept = ("module", "dim", "broadcast_buffers", "find_unused_parameters",
                "gradient_as_bucket_view", "static_graph", "deterministic_world")  # fmt: skip
        options = {name: getattr(self, name) for name in kept}
        return {**options, "device_ids": self.device_ids, "training": self.training}

    def __setstate__(self, state: dict[str, Any]) -> None:
        training = state.pop("training")
        self.__init__(**state, init_sync=False)  # type: ignore[misc]
        self.training = training

    def _check(self, device_ids, output_device):
        if not self._named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        places = {parameter.device for _, parameter in self._named}
        kinds = {place.type for place in places}
        if not kinds <= self.process_group._backends.keys():
            raise ValueError(
                f"DistributedDataParallel: the module is on {sorted(map(str, places))}, and its "
                f"process group serves {sorted(self.process_group._backends)} only; "
                'init_process_group("cpu:gloo,cuda:nccl") serves both'
            )
        if not device_ids and output_device is None:
            return
        if len(places) > 1 or kinds != {"cuda"}:
            raise ValueError(
                "DistributedDataParallel: device_ids and output_device are for modules on one GPU, "
                f"and this one is on {sorted(map(str, places))}; got {device_ids} and "
                f"{output_device}"
            )
        place = places.pop()
        ids = [rushlight.device("cuda", d) if isinstance(d, int) else rushlight.device(d)
               for d in device_ids or [place]]  # fmt: skip
        if ids != [place]:
            raise ValueError(
                f"DistributedDataParallel: device_ids must be [{place.index}], where the module "
                f"is, got {device_ids}"
            )
        self.device_ids = [place.index]
        self.output_device = place.index if output_device is None else output_device

    def _average(self, tensor, scaled):
        if self._divides_by_active:
            return _Divided(tensor, self._joined_active, self.process_group)
        if self.process_group._user_for([tensor]) is not None:  # which need not know averages
            return _Divided(tensor, self.process_group.size(), self.process_group)
        how = ReduceOp.SUM if scaled else ReduceOp.AVG
        return distributed.all_reduce(tensor, how, self.process_group, async_op=True)

    def _factor(self, tensor):
        """Where the sum of scaled gradients is their average. Half types are added in float32 and
        rounded once; on GPUs NCCL averages."""
        wide = tensor.dtype in (rushlight.float32, rushlight.float64)
        if not wide or tensor.device.type != "cpu":
            return None
        if self._divides_by_active or self.process_group._user_for([tensor]) is not None:
            return None
        return 1 / self.process_group.size()

    def _largest(self, tensor):
        distributed.all_reduce(tensor, ReduceOp.MAX, self.process_group)

    def _agree(self, order):
        tensor = rushlight.tensor(order, dtype=rushlight.int64).to(self.process_group._device())
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

    def _copy_from_first(self, tensors, source=0):
        """Rank 0's values, or another's, one message per dtype."""
        if self.process_group.size() == 1:
            return
        kinds: dict[Any, list[Any]] = {}
        for tensor in tensors:
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        with rushlight.no_grad():
            for same in kinds.values():
                sizes = [t.numel() for t in same]
                if self.process_group.rank() == source:
                    flat = rushlight.cat([t.reshape(-1) for t in same])
                    distributed.broadcast(flat, group=self.process_group, group_src=source)
                    continue
                flat = same[0].new_empty(sum(sizes))
                distributed.broadcast(flat, group=self.process_group, group_src=source)
                for tensor, part in zip(same, flat.split(sizes), strict=True):
                    tensor.copy_(part.view(tensor.shape))

    def _sync_buffers(self, has_inputs: bool) -> None:
        """Inside join, rank 0 may be without inputs; the last rank that has some gives them."""
        source = 0
        if self._join_config.enable:
            source = self._last_of_those(has_inputs)
        self._copy_from_first(self._shared_buffers, source)

    def _last_of_those(self, here: bool) -> int:
        mine = rushlight.tensor([self.process_group.rank() if here else -1])
        mine = mine.to(self.process_group._device())
        self._largest(mine)
        return int(mine)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        synced = rushlight.is_grad_enabled() and self.require_backward_grad_sync
        if self._join_config.enable and synced:
            Join.notify_join_context(self)
        if self.require_forward_param_sync and self.broadcast_buffers and self._shared_buffers:
            self._sync_buffers(has_inputs=True)
        self.require_forward_param_sync = synced
        if self.device_ids:
            inputs, kwargs = _moved((inputs, kwargs), self._named[0][1].device)
        output = self.module(*inputs, **kwargs)
        if self.require_forward_param_sync:
            active = self._joined_active if self._divides_by_active else None
            self._reducer.divisor = active or self.process_group.size()
            self._reducer.prepare()
        return output

    def shards(self) -> range:
        """With deterministic_world: the numbers of the shards that this process computes, in order;
        shard s of V is, say, ``batch[s::V]``."""
        if self.deterministic_world is None:
            raise RuntimeError("DistributedDataParallel.shards: deterministic_world was not given")
        each = self.deterministic_world // self.process_group.size()
        first = self.process_group.rank() * each
        return range(first, first + each)

    def _needs_plain_sums(self, what: str) -> None:
        if self.deterministic_world is not None:
            raise RuntimeError(f"DistributedDataParallel: deterministic_world and {what} do not go "
                               "together")  # fmt: skip

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, forward and backward passes add to each process's own gradients; the next pass
        outside averages the sums."""
        self._needs_plain_sums("no_sync")
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """``with model.join():`` around a loop whose ranks have different numbers of batches: those
        that are done add zeros to the others' gradients, and get the final model.

        The sums are divided by the number of all ranks, or, without
        ``divide_by_initial_world_size``, by that of the ranks that still have batches.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What Join calls on a rank without batches."""
        self._needs_plain_sums("join")
        return _ShadowSteps(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> rushlight.device:
        """Where the parameters are."""
        return self._named[0][1].device

    @property
    def join_process_group(self) -> distributed.ProcessGroup:
        """The group of the model."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Lets ``hook(state, bucket)`` average the gradients of a bucket (a GradBucket). It returns
        a Future of the averages. Once, and before the first step."""
        self._needs_plain_sums("communication hooks")
        if not callable(hook):
            raise TypeError("register_comm_hook: the hook must be a function")
        if self._reducer._comm_hook is not None:
            raise RuntimeError("register_comm_hook: there is a hook already")
        self._reducer.use_hook(lambda bucket: hook(state, bucket))

    @property
    def reducer(self) -> _Begin:
        """PyTorch's name, for tools that begin a step by themselves."""
        return _Begin(self._reducer)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What PyTorch's tools ask a model about; figures of time are the profiler's."""
        return {
            "module_name": type(self.module).__name__,
            "world_size": self.process_group.size(),
            "backend_name": distributed.get_backend(self.process_group),
            "rank": self.process_group.rank(),
            "find_unused_parameters": bool(self.find_unused_parameters),
            "broadcast_buffers": bool(self.broadcast_buffers),
            "static_graph": bool(self.static_graph),
            "can_set_static_graph": False,  # static_graph would change nothing
        }

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        """The same by a name of BuiltinCommHookType."""
        from rushlight.distributed.algorithms.ddp_comm_hooks import DDPCommHookType

        hook = DDPCommHookType[comm_hook_type.name].value
        self.register_comm_hook(self.process_group, hook)


def _moved(values: Any, place: rushlight.device) -> Any:
    """The same with all tensors on the module's GPU."""

    def one(value: Any) -> Any:
        is_tensor = isinstance(value, rushlight.Tensor)
        return value.to(place, non_blocking=True) if is_tensor else value

    return tree_map(one, values)


class _Begin:
    """The one method of PyTorch's reducer that programs call."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = reducer

    def prepare_for_backward(self, outputs: Any) -> None:
        """The next backward averages the gradients, also where forward was under no_sync."""
        self._reducer.prepare()


class _Divided:
    """A sum that is divided by the number of ranks that had something to add."""

    def __init__(self, tensor: Any, active: int | None, group: Any) -> None:
        self._tensor, self._active = tensor, active
        self._work = distributed.all_reduce(tensor, group=group, async_op=True)

    def wait(self) -> None:
        assert self._work is not None
        self._work.wait()
        if self._active:
            self._tensor.div_(self._active)


class _ShadowSteps(JoinHook):
    """A DistributedDataParallel without batches."""

    def __init__(self, model: DistributedDataParallel, by_all: bool) -> None:
        self._model = model
        model._divides_by_active = not by_all

    def main_hook(self) -> None:
        model = self._model
        model._joined_active = None  # what comes out is of no use here
        if model.require_forward_param_sync and model.broadcast_buffers and model._shared_buffers:
            model._sync_buffers(has_inputs=False)
        model.require_forward_param_sync = True
        model._reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All ranks get the model of one that took the most steps."""
        model = self._model
        model._divides_by_active = False
        kept = [p for _, p in model.module.named_parameters()] + model._shared_buffers
        model._copy_from_first(kept, model._last_of_those(is_last_joiner))
