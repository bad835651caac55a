"""save and async_save."""

from __future__ import annotations

import inspect
import os
import threading
import uuid
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rushlight import distributed as dist
from rushlight._names.missing import fill
from rushlight.distributed import _world
from rushlight.distributed.checkpoint.api import CheckpointException
from rushlight.distributed.checkpoint.default_planner import DefaultSavePlanner
from rushlight.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
    SerializationFormat,
)
from rushlight.distributed.checkpoint.metadata import STATE_DICT_TYPE, Metadata
from rushlight.distributed.checkpoint.planner import SavePlan, SavePlanner
from rushlight.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager
from rushlight.distributed.checkpoint.stateful import Stateful
from rushlight.distributed.checkpoint.storage import StorageWriter, WriteResult
from rushlight.distributed.checkpoint.utils import StoreWrapper, _DistWrapper

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """Who writes what async_save saves: a thread, or a process."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What async_save gives where the copy is made by a thread, too: when the state may be changed,
    and when the checkpoint is written."""

    staging_completion: Future[None]
    upload_completion: Future[Any]


def storage_of(storage: Any, checkpoint_id: Any, reader: bool) -> Any:
    """The storage that the call names, or the folder."""
    if storage is not None:
        storage.reset(checkpoint_id)
        return storage
    if checkpoint_id is None:
        raise RuntimeError(
            "distributed.checkpoint: either checkpoint_id or a storage (FileSystemWriter, "
            "FileSystemReader) must be given"
        )
    if reader:
        return FileSystemReader(checkpoint_id)
    # A format that cannot run code, and that others read without us.
    return FileSystemWriter(checkpoint_id, serialization_format=SerializationFormat.SAFETENSORS)


def state_of(value: Any) -> Any:
    """The state of an object that has one; anything else as it is."""
    return value.state_dict() if isinstance(value, Stateful) else value


def states_of(state_dict: STATE_DICT_TYPE) -> dict[str, Any]:
    """Its values, and the states of its objects."""
    if not isinstance(state_dict, dict):
        raise TypeError(
            f"distributed.checkpoint: expects a dict to save, got {type(state_dict).__name__}"
        )
    return {key: state_of(value) for key, value in state_dict.items()}


def with_options(function: Any, *args: Any, **options: Any) -> Any:
    """Calls a storage's method; older ones take no more than they must."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return function(*args, **(options if inspect.Parameter.VAR_KEYWORD in kinds else {}))


class _Save:
    """A save in two steps, planning and writing, which different threads may do."""

    def __init__(
        self, state_dict: STATE_DICT_TYPE, writer: StorageWriter, planner: SavePlanner | None,
        ranks: _DistWrapper, use_collectives: bool,
    ) -> None:  # fmt: skip
        self.state_dict, self.writer, self.ranks = state_dict, writer, ranks
        self.planner = planner or DefaultSavePlanner()
        self.use_collectives = use_collectives
        self.metadata: Metadata | None = None
        self.central_plan: Any = None

    def _local_plan(self) -> SavePlan:
        first = self.ranks.is_coordinator
        try:
            self.planner.set_up_planner(
                state_dict=self.state_dict,
                storage_meta=self.writer.storage_meta(),
                is_coordinator=first,
            )
        except TypeError as error:
            if "storage_meta" not in str(error):
                raise
            self.planner.set_up_planner(self.state_dict, first)  # type: ignore[arg-type]
        with_options(self.writer.set_up_storage_writer, first, rank=self.ranks.rank,
                     use_collectives=self.use_collectives)  # fmt: skip
        return self.writer.prepare_local_plan(self.planner.create_local_plan())

    def _global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        plans, self.metadata = self.planner.create_global_plan(plans)
        return self.writer.prepare_global_plan(plans)

    def plan(self) -> None:
        """Finds out who writes what."""
        if self.use_collectives:
            self.central_plan = self.ranks.reduce_scatter(
                "plan", self._local_plan, self._global_plan
            )
        else:
            self.central_plan = self._global_plan([self._local_plan()])[0]

    def _write(self) -> list[WriteResult]:
        plan = self.planner.finish_plan(self.central_plan)
        return self.writer.write_data(plan, self.planner).wait()

    def _finish(self, results: list[list[WriteResult]]) -> Metadata:
        assert self.metadata is not None
        self.writer.finish(metadata=self.metadata, results=results)
        return self.metadata

    def write(self, ranks: _DistWrapper) -> Metadata:
        """Writes what was planned; a storage may take back what is of no use: where all ranks know
        that it failed. A rank that lost the others does not know whether there is a new checkpoint,
        whose metadata may name its files."""
        try:
            return self._written(ranks)
        except CheckpointException:
            getattr(self.writer, "_discard", lambda: None)()
            raise

    def _written(self, ranks: _DistWrapper) -> Metadata:
        if self.use_collectives:
            return ranks.all_reduce("write", self._write, self._finish)
        # Each rank by itself; they only tell each other how it went.
        return ranks.all_gather("write", lambda: self._finish([self._write()]))[ranks.rank]


def _save_state_dict(
    state_dict: STATE_DICT_TYPE, storage_writer: StorageWriter, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: SavePlanner | None = None,
    use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    ranks = _DistWrapper(process_group, not no_dist and dist.is_initialized(), coordinator_rank)
    job = _Save(state_dict, storage_writer, planner, ranks, use_collectives)
    job.plan()
    return job.write(ranks)


def save(
    state_dict: STATE_DICT_TYPE, *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None,
    process_group: Any = None, no_dist: bool = False, use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Writes a checkpoint: each rank its parts of DTensors, and one rank what all ranks hold. All
    ranks call this; objects with a state_dict give it.

    Arguments:
        state_dict: tensors, DTensors, objects with a state_dict, and other values, nested.
        checkpoint_id: the folder.
        storage_writer: writes in place of one that writes safetensors into that folder;
            ``FileSystemWriter(folder)`` writes PyTorch's files.
        planner: decides what is written in place of a DefaultSavePlanner.
        process_group: the ranks that call this.
        no_dist: this process saves alone.
        use_collectives: with False, each rank writes metadata of its own.

    Returns:
        What the checkpoint holds. Where some ranks fail, all raise CheckpointException.

    Example:
        >>> import tempfile
        >>> import rushlight.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = dcp.save({"model": {"w": rl.ones(2, 3)}, "step": 7}, checkpoint_id=folder)
        >>> list(found.state_dict_metadata)
        ['model.w', 'step']
    """
    return _save_state_dict(
        states_of(state_dict),
        storage_of(storage_writer, checkpoint_id, reader=False),
        process_group, 0, no_dist, planner, use_collectives,
    )  # fmt: skip


def save_state_dict(
    state_dict: STATE_DICT_TYPE, storage_writer: StorageWriter, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: SavePlanner | None = None,
) -> Metadata:  # fmt: skip
    """The older form of save(): objects with a state_dict are not asked for it."""
    warnings.warn(
        "save_state_dict is deprecated; use distributed.checkpoint.save", FutureWarning, 2
    )
    storage_writer.reset()
    return _save_state_dict(
        state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner
    )


def async_save(
    state_dict: STATE_DICT_TYPE, *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None, no_dist: bool = False, use_collectives: bool = True,
) -> Future[Metadata] | AsyncSaveResponse:  # fmt: skip
    """save(), whose files are written by a thread: the state is copied, and the ranks agree who
    writes what, before this returns.

    Arguments:
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist,
            use_collectives: as save() takes them.
        async_checkpointer_type: THREAD; there is no PROCESS.
        async_stager: makes the copy; else the storage does, if it can.

    Returns:
        A future of the metadata. Where the stager gives a future, an AsyncSaveResponse.
    """
    if AsyncCheckpointerType(async_checkpointer_type) is AsyncCheckpointerType.PROCESS:
        raise NotImplementedError(
            "async_save: AsyncCheckpointerType.PROCESS is not there; a thread writes"
        )
    ranks = _DistWrapper(process_group, not no_dist and dist.is_initialized(), 0)
    writer = storage_of(storage_writer, checkpoint_id, reader=False)
    if async_stager is None:
        async_stager = writer if isinstance(writer, AsyncStager) else BlockingAsyncStager()
    staged: Any = async_stager.stage(states_of(state_dict))
    copy = staged.result() if isinstance(staged, Future) else staged
    job = _Save(copy, writer, planner, ranks, use_collectives)
    job_ranks = StoreWrapper(
        ranks,
        ranks.broadcast_object(uuid.uuid4().hex),
        _world.world.store if ranks.use_dist else None,
    )
    written: Future[Metadata] = Future()
    try:
        job.plan()
    except BaseException as error:
        written.set_exception(error)
    else:

        def work() -> None:
            try:
                written.set_result(job.write(job_ranks))
            except BaseException as error:
                written.set_exception(error)

        threading.Thread(target=work, name="checkpoint").start()
    if isinstance(staged, Future):
        ready: Future[None] = Future()
        ready.set_result(None)
        return AsyncSaveResponse(ready, written)
    if async_stager.should_synchronize_after_execute:
        async_stager.synchronize_staging()
    return written


fill(globals())
