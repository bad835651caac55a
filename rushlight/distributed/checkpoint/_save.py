"""save and async_save."""

from __future__ import annotations

import base64
import io
import json
import os
import threading
import uuid
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed import _world
from rushlight.distributed.checkpoint._storage import (
    METADATA,
    CheckpointException,
    folder_of,
    is_stateful,
    leaves_of,
    region_of,
)
from rushlight.distributed.tensor._dtensor import local_of
from rushlight.utils import safetensors

_WAIT = timedelta(hours=2)  # for the slowest rank's disk


class _Plan:
    """What this rank writes, and what all ranks' metadata say."""

    def __init__(self, state_dict: dict[str, Any], folder: str, group: Any, alone: bool,
                 syncs: bool) -> None:  # fmt: skip
        self.folder, self.alone, self.syncs = folder, alone, syncs
        self.rank = 0 if alone else dist.get_rank(group)
        self.size = 1 if alone else dist.get_world_size(group)
        name = [uuid.uuid4().hex[:12]]
        if not alone:
            dist.broadcast_object_list(name, group=group, group_src=0)
        self.name = name[0]
        self.file = f"{self.name}_{self.rank}.safetensors"
        self.tensors: dict[str, Any] = {}
        mine: dict[str, Any] = {"tensors": {}, "values": {}}
        self._collect(state_dict, mine)
        every: list[Any] = [mine]
        if not alone:
            every = [None] * self.size
            dist.all_gather_object(every, mine, group)
        self.metadata = _merged(every)

    def _collect(self, state_dict, mine):
        whole = {k: v.state_dict() if is_stateful(v) else v for k, v in state_dict.items()}
        for number, (name, value, _, _) in enumerate(leaves_of(whole)):
            if not isinstance(value, Tensor):
                if self.rank == 0:
                    mine["values"][name] = _as_text(value)
                continue
            first, sizes, is_first = region_of(value)
            plain = type(value).__name__ != "DTensor"
            # What all ranks hold is written by one, not always the same.
            writes = number % self.size == self.rank if plain else is_first
            entry = {"shape": list(value.shape), "dtype": str(value.dtype), "parts": []}
            if writes and 0 not in sizes:
                self.tensors[name] = _on_host(local_of(value).detach())
                entry["parts"] = [{"file": self.file, "first": first, "sizes": sizes}]
            mine["tensors"][name] = entry

    def write(self) -> None:
        """This rank's file."""
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, self.file)
        safetensors.save_file(self.tensors, path)
        if self.syncs:
            _sync(path)

    def commit(self) -> None:
        """The checkpoint counts from now on; files of older ones go."""
        path = os.path.join(self.folder, METADATA)
        with open(path + self.name, "w") as file:
            json.dump(self.metadata, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + self.name, path)
        _sync(self.folder)
        for entry in os.listdir(self.folder):
            if entry.endswith(".safetensors") and not entry.startswith(self.name + "_"):
                os.unlink(os.path.join(self.folder, entry))


def _on_host(tensor):
    """A copy that later steps do not change."""
    return tensor.contiguous().cpu() if tensor.is_cuda else tensor.clone().contiguous()


def _sync(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _as_text(value):
    """A value that JSON keeps as it is, or what save() makes of it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"json": value}
    buffer = io.BytesIO()
    rushlight.save(value, buffer)
    return {"saved": base64.b64encode(buffer.getvalue()).decode()}


def _merged(every):
    tensors: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for rank, mine in enumerate(every):
        values.update(mine["values"])
        for name, entry in mine["tensors"].items():
            found = tensors.setdefault(name, entry)
            if (found["shape"], found["dtype"]) != (entry["shape"], entry["dtype"]):
                raise ValueError(
                    f"distributed.checkpoint.save: {name} is {entry['dtype']} {entry['shape']} on "
                    f"rank {rank}, and {found['dtype']} {found['shape']} on another"
                )
            if found is not entry:
                found["parts"] += entry["parts"]
    return {"format": 1, "tensors": tensors, "values": values}


def _error_of(action):
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _raise_failures(errors):
    failures = {rank: error for rank, error in enumerate(errors) if error is not None}
    if failures:
        raise CheckpointException("save", failures)


def save(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False,
    use_collectives: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Writes a checkpoint: each rank its parts of DTensors, and one rank what all ranks hold. All
    ranks call this; objects with a state_dict give it. Returns the metadata."""
    alone = no_dist or not dist.is_initialized()
    syncs = getattr(storage_writer, "sync_files", True)
    folder = folder_of(checkpoint_id, storage_writer)
    plan = _Plan(state_dict, folder, process_group, alone, syncs)

    def shared(error: Any) -> list[Any]:
        every = [error]
        if not alone:
            every = [None] * plan.size
            dist.all_gather_object(every, error, process_group)
        return every

    _raise_failures(shared(_error_of(plan.write)))
    _raise_failures(shared(_error_of(plan.commit) if plan.rank == 0 else None))
    return plan.metadata


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False, **options: Any,
) -> Future[dict[str, Any]]:  # fmt: skip
    """save(), whose files are written by a thread: the state is copied before this returns."""
    alone = no_dist or not dist.is_initialized()
    syncs = getattr(storage_writer, "sync_files", True)
    folder = folder_of(checkpoint_id, storage_writer)
    plan = _Plan(state_dict, folder, process_group, alone, syncs)
    store = None if alone else _world.world.store
    future: Future[dict[str, Any]] = Future()

    def agree(what: str, error: Any) -> list[Any]:
        """All ranks' errors; through the store, as collectives are the training's."""
        if store is None:
            return [error]
        store.set(f"checkpoint/{plan.name}/{what}/{plan.rank}", json.dumps(error))
        keys = [f"checkpoint/{plan.name}/{what}/{r}" for r in range(plan.size)]
        store.wait(keys, _WAIT)
        return [json.loads(store.get(key)) for key in keys]

    def work() -> None:
        try:
            _raise_failures(agree("written", _error_of(plan.write)))
            _raise_failures(agree("done", _error_of(plan.commit) if plan.rank == 0 else None))
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(plan.metadata)

    threading.Thread(target=work, name="checkpoint").start()
    return future
