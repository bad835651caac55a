"""The state of an optimiser from a checkpoint, cut as the model is."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._names.missing import fill
from rushlight.distributed._placements import Shard
from rushlight.distributed.checkpoint._nested_dict import unflatten_state_dict
from rushlight.distributed.checkpoint.metadata import STATE_DICT_TYPE, BytesStorageMetadata
from rushlight.distributed.checkpoint.planner import LoadPlanner
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict
from rushlight.distributed.checkpoint.storage import StorageReader
from rushlight.distributed.device_mesh import mesh_of_all
from rushlight.distributed.tensor._dtensor import DTensor, local_length, wrap

__all__ = ["load_sharded_optimizer_state_dict"]


def _room(md: Any, mesh: Any, placements: tuple[Any, ...]) -> Any:
    """A DTensor to be filled."""
    sizes = [local_length(n, dim, mesh, placements) for dim, n in enumerate(md.size)]
    local = rushlight.empty(sizes, dtype=md.properties.dtype, device=mesh.device_type)
    return wrap(local, mesh, placements, md.size)


def load_sharded_optimizer_state_dict(
    model_state_dict: STATE_DICT_TYPE,
    optimizer_key: str,
    storage_reader: StorageReader,
    planner: LoadPlanner | None = None,
) -> STATE_DICT_TYPE:
    """What a checkpoint has under ``optimizer_key``, without a state dict to fill: the states of a
    parameter are DTensors that lie as the model's parameter does; others are cut along their first
    dim over all ranks.

    Arguments:
        model_state_dict: DTensors by the names of parameters.
        optimizer_key: the key of the optimiser's state in the saved state dict.
        storage_reader: where the checkpoint is.
        planner: as load() takes it.

    Returns:
        ``{optimizer_key: {"state": {name: {...}}, "param_groups": [...]}}``, as FSDP's
        optim_state_dict_to_load takes it.
    """
    metadata = storage_reader.read_metadata()
    paths = metadata.planner_data or {}
    together = dist.is_initialized()
    everywhere = mesh_of_all() if together else None
    state: STATE_DICT_TYPE = {}
    for name, md in metadata.state_dict_metadata.items():
        path = paths.get(name, (name,))
        if path[0] != optimizer_key:
            continue
        if isinstance(md, BytesStorageMetadata):
            state[name] = None
            continue
        model_has = model_state_dict.get(str(path[2])) if len(path) > 2 else None
        if isinstance(model_has, DTensor) and tuple(model_has.shape) == tuple(md.size):
            state[name] = _room(md, model_has.device_mesh, tuple(model_has.placements))
        elif everywhere is not None and md.size.numel() > 1:
            state[name] = _room(md, everywhere, (Shard(0),))
        else:
            state[name] = rushlight.empty(md.size, dtype=md.properties.dtype)
    storage_reader.reset()
    _load_state_dict(state, storage_reader, no_dist=not together, planner=planner)
    return unflatten_state_dict(state, paths)


fill(globals())
