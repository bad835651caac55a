"""load: the parts of a checkpoint that this rank needs."""

from __future__ import annotations

import os
import warnings
from typing import Any

from rushlight import distributed as dist
from rushlight._names.missing import fill
from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from rushlight.distributed.checkpoint.metadata import STATE_DICT_TYPE
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from rushlight.distributed.checkpoint.state_dict_saver import state_of, storage_of, with_options
from rushlight.distributed.checkpoint.stateful import Stateful
from rushlight.distributed.checkpoint.storage import StorageReader
from rushlight.distributed.checkpoint.utils import _DistWrapper

__all__ = ["load", "load_state_dict"]


def _metadata_of(reader: StorageReader, rank: int) -> tuple[Any, bool]:
    """What the checkpoint holds, and whether it is of all ranks together."""
    try:
        return reader.read_metadata(), True
    except FileNotFoundError:
        try:
            return with_options(reader.read_metadata, rank=rank), False
        except FileNotFoundError:
            pass
        raise


def _load_state_dict(
    state_dict: STATE_DICT_TYPE, storage_reader: StorageReader, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    ranks = _DistWrapper(process_group, not no_dist and dist.is_initialized(), coordinator_rank)
    planner = planner or DefaultLoadPlanner()

    def local_plan() -> LoadPlan:
        metadata, together = _metadata_of(storage_reader, ranks.rank)
        planner.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        with_options(storage_reader.set_up_storage_reader, metadata, ranks.is_coordinator,
                     rank=ranks.rank, use_collectives=together)  # fmt: skip
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans: list[LoadPlan]) -> list[LoadPlan]:
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    central = ranks.reduce_scatter("plan", local_plan, global_plan)

    def read() -> None:
        storage_reader.read_data(planner.finish_plan(central), planner).wait()

    ranks.all_gather("read", read)


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None, planner: LoadPlanner | None = None,
    process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Reads a checkpoint into the tensors of a state dict, whatever number of ranks wrote it and
    however its tensors are cut now. Other values are put into the dict; objects with a state_dict
    load theirs. All ranks call this, with the same keys.

    Arguments:
        state_dict: what is to be filled.
        checkpoint_id: the folder.
        storage_reader: reads in place of a FileSystemReader of that folder.
        planner: decides what is read in place of a DefaultLoadPlanner, which raises where the
            checkpoint lacks something; ``DefaultLoadPlanner(allow_partial_load=True)`` does not.
        process_group: the ranks that call this.
        no_dist: this process loads alone.

    Where some ranks fail, all raise CheckpointException.

    Example:
        >>> import tempfile
        >>> import rushlight.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dcp.save({"w": rl.ones(2), "step": 7}, checkpoint_id=folder)
        ...     state = {"w": rl.zeros(2), "step": 0}
        ...     dcp.load(state, checkpoint_id=folder)
        >>> state
        {'w': tensor([1., 1.]), 'step': 7}
    """
    reader = storage_of(storage_reader, checkpoint_id, reader=True)
    keys = sorted(state_dict)  # the same order on all ranks
    whole = {key: state_of(state_dict[key]) for key in keys}
    _load_state_dict(whole, reader, process_group, 0, no_dist, planner)
    for key in keys:
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(whole[key])
        else:
            state_dict[key] = whole[key]


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """The older form of load(): objects with a state_dict are not asked for it."""
    warnings.warn(
        "load_state_dict is deprecated; use distributed.checkpoint.load", FutureWarning, 2
    )
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None, *, checkpoint_id: Any = None,
    storage_reader: StorageReader | None = None, process_group: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """What a checkpoint holds, or what is below these keys, as a new state dict."""
    reader = storage_of(storage_reader, checkpoint_id, reader=True)
    made: dict[str, Any] = {}
    planner = _EmptyStateDictLoadPlanner(keys={keys} if isinstance(keys, str) else keys)
    _load_state_dict(made, reader, process_group, planner=planner)
    return made


fill(globals())
