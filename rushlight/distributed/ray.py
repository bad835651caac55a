"""Training on a Ray cluster: Ray Train starts the workers, on as many nodes as there are, and again
with fewer or more when nodes go or come (docs/rpc.md).

    from rushlight.distributed.ray import RushlightTrainer, prepare_model
    from ray.train import FailureConfig, RunConfig, ScalingConfig

    RushlightTrainer(
        train,
        scaling_config=ScalingConfig(num_workers=(2, 8)),  # elastic: as many as there is room for
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()

Importing this module imports Ray; `pip install ray[train]`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import rushlight as rl
from rushlight import distributed as dist

try:
    import ray
    from ray import train
    from ray.train.backend import Backend, BackendConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
except ImportError as error:
    raise ImportError(
        f"rushlight.distributed.ray: needs Ray Train ({error}): pip install 'ray[train]'"
    ) from error

__all__ = [
    "RushlightConfig",
    "RushlightTrainer",
    "get_device",
    "prepare_data_loader",
    "prepare_model",
]


@dataclass
class RushlightConfig(BackendConfig):
    """How the workers' process group is made: its backend (None: MPI for CPUs, NCCL for GPUs), and
    how long collectives may take."""

    backend: str | None = None
    timeout_s: int = 1800

    @property
    def backend_cls(self) -> type[Backend]:
        return _RushlightBackend

    def to_dict(self) -> dict[str, Any]:
        return {"backend": self.backend, "timeout_s": self.timeout_s}


def _address():
    """This worker's node, and a port that is free there."""
    host = ray.util.get_node_ip_address()
    with socket.socket() as sock:
        sock.bind(("", 0))
        return host, sock.getsockname()[1]


def _begin(rank, world_size, host, port, backend, timeout_s):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), MASTER_ADDR=host,
                      MASTER_PORT=str(port))  # fmt: skip
    dist.init_process_group(
        backend, rank=rank, world_size=world_size, timeout=timedelta(seconds=timeout_s)
    )


def _describe():
    context = train.get_context()
    os.environ.update(
        LOCAL_RANK=str(context.get_local_rank()),
        LOCAL_WORLD_SIZE=str(context.get_local_world_size()),
        NODE_RANK=str(context.get_node_rank()),
    )


def _end():
    if dist.is_initialized():
        dist.destroy_process_group()


class _RushlightBackend(Backend):
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        host, port = worker_group.execute_single(0, _address)
        backend = backend_config.backend
        if backend is None:
            on_gpus = worker_group.get_resources_per_worker().get("GPU", 0) > 0
            backend = "nccl" if on_gpus else "gloo"
        size = len(worker_group)
        ray.get(
            [
                worker_group.execute_single_async(
                    rank, _begin, rank, size, host, port, backend, backend_config.timeout_s
                )
                for rank in range(size)
            ]
        )

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute(_describe)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute_async(_end)


class RushlightTrainer(DataParallelTrainer):
    """Runs a function on all workers of a Ray cluster, inside a process group.

    ``scaling_config`` says how many workers; a pair (least, most) makes the run elastic: Ray starts
    as many as there is room for, and all of them again, from the last checkpoint that was given to
    ``ray.train.report``, when nodes leave or come. The other arguments are Ray's.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        rushlight_config: RushlightConfig | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=rushlight_config or RushlightConfig(),
            **more,
        )


def get_device() -> rl.device:
    """The device that Ray gave this worker: a GPU, or the CPU."""
    if not ray.get_gpu_ids():
        return rl.device("cpu")
    return rl.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def prepare_model(model: Any, **ddp_options: Any) -> Any:
    """The model on this worker's device, and in DistributedDataParallel where there are several
    workers."""
    from rushlight.nn.parallel import DistributedDataParallel

    device = get_device()
    model = model.to(device)
    if dist.get_world_size() == 1:
        return model
    if device.type == "cuda":
        ddp_options.setdefault("device_ids", [device])
    return DistributedDataParallel(model, **ddp_options)


def prepare_data_loader(data_loader: Any) -> Any:
    """A loader that gives each worker its share: with a DistributedSampler, which shuffles where
    the loader did. Call ``loader.sampler.set_epoch(epoch)`` before each epoch."""
    from rushlight.utils.data import DataLoader, DistributedSampler, RandomSampler

    if dist.get_world_size() == 1 or isinstance(data_loader.sampler, DistributedSampler):
        return data_loader
    shuffles = isinstance(data_loader.sampler, RandomSampler)
    return DataLoader(
        data_loader.dataset,
        batch_size=data_loader.batch_size,
        sampler=DistributedSampler(data_loader.dataset, shuffle=shuffles),
        num_workers=data_loader.num_workers,
        collate_fn=data_loader.collate_fn,
        drop_last=data_loader.drop_last,
    )
