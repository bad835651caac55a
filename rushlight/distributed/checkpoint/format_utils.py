"""Checkpoints of all ranks as files of save(), and the reverse."""

from __future__ import annotations

import os
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict
from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
    narrowed,
)
from rushlight.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from rushlight.distributed.checkpoint.metadata import (
    STATE_DICT_TYPE,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict
from rushlight.distributed.checkpoint.state_dict_saver import _save_state_dict
from rushlight.distributed.checkpoint.storage import StorageReader
from rushlight.futures import Future

__all__ = [
    "BroadcastingTorchSaveReader",
    "DynamicMetaLoadPlanner",
    "dcp_to_torch_save",
    "torch_save_to_dcp",
]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Makes one file of a checkpoint's folder, which load() reads. One process does this, and needs
    memory for all of it.

    Example:
        >>> import os, tempfile
        >>> import rushlight.distributed.checkpoint as dcp
        >>> from rushlight.distributed.checkpoint.format_utils import dcp_to_torch_save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dcp.save({"model": {"w": rl.ones(2)}}, checkpoint_id=folder)
        ...     dcp_to_torch_save(folder, os.path.join(folder, "model.pt"))
        ...     print(rl.load(os.path.join(folder, "model.pt")))
        {'model': {'w': tensor([1., 1.])}}
    """
    made: STATE_DICT_TYPE = {}
    _load_state_dict(
        made,
        FileSystemReader(dcp_checkpoint_dir),
        no_dist=True,
        planner=_EmptyStateDictLoadPlanner(),
    )
    rushlight.save(made, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Makes a checkpoint's folder of a file of save(). Nothing in the file is run: what load() does
    not accept is allowed by serialization.add_safe_globals.

    Example:
        >>> import os, tempfile
        >>> import rushlight.distributed.checkpoint as dcp
        >>> from rushlight.distributed.checkpoint.format_utils import torch_save_to_dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rl.save({"w": rl.ones(2)}, os.path.join(folder, "model.pt"))
        ...     torch_save_to_dcp(os.path.join(folder, "model.pt"), folder)
        ...     state = {"w": rl.zeros(2)}
        ...     dcp.load(state, checkpoint_id=folder)
        >>> state["w"]
        tensor([1., 1.])
    """
    state = rushlight.load(torch_save_path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise ValueError(f"torch_save_to_dcp: expected a dict in the file, got a {type(state)}")
    _save_state_dict(state, FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of save() on one rank, and sends its tensors to the others. For load() with a
    DynamicMetaLoadPlanner.

    Arguments:
        checkpoint_id: the file; load() may name it, too.
        coordinator_rank: who reads.
    """

    def __init__(
        self, checkpoint_id: str | os.PathLike[str] | None = None, coordinator_rank: int = 0
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.coordinator_rank = coordinator_rank
        self.is_coordinator = True

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """The file that is to be read."""
        self.checkpoint_id = checkpoint_id if checkpoint_id is not None else self.checkpoint_id

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Nothing: the planner makes it of the state dict."""
        return Metadata(state_dict_metadata={})

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Whether this rank reads."""
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Reads the tensors, sends them, and hands each rank its part."""
        whole: dict[str, Any] = {}
        if self.is_coordinator:
            if self.checkpoint_id is None:
                raise ValueError("BroadcastingTorchSaveReader: no file was named")
            whole = rushlight.load(self.checkpoint_id, map_location="cpu", weights_only=True)
            if getattr(planner, "flatten_state_dict", False):
                whole, _ = flatten_state_dict(whole)
        together = dist.is_initialized()
        with rushlight.no_grad():
            for item in plan.items:
                name = item.storage_index.fqn
                found = [whole.get(name)]
                if together:
                    dist.broadcast_object_list(found, src=self.coordinator_rank)
                if not isinstance(found[0], Tensor) or item.type == LoadItemType.BYTE_IO:
                    raise ValueError(f"{type(self).__name__}: the file has no tensor {name!r}")
                target = planner.resolve_tensor(item).detach()
                target.copy_(narrowed(found[0], item.storage_offsets, item.lengths))
                planner.commit_tensor(item, target)
        done = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """A planner for files without metadata: the checkpoint is taken to hold what the state dict
    does, tensors only."""

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        """Takes the state dict, and makes metadata of it."""
        super().set_up_planner(state_dict, metadata, is_coordinator)
        found: dict[str, Any] = {}
        for name, tensor in self.state_dict.items():
            if not isinstance(tensor, Tensor):
                raise RuntimeError(
                    f"DynamicMetaLoadPlanner: only tensors can be read, and {name!r} is a "
                    f"{type(tensor).__name__}"
                )
            size = rushlight.Size(tensor.shape)
            whole = ChunkStorageMetadata(rushlight.Size([0] * len(size)), size)
            properties = TensorProperties(dtype=tensor.dtype)
            found[name] = TensorStorageMetadata(properties, size, [whole])
        self.metadata = Metadata(state_dict_metadata=found)


fill(globals())
