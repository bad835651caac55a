"""The interface of storages: what keeps the plans' items."""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from rushlight._names.missing import fill
from rushlight.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from rushlight.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
)
from rushlight.futures import Future

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """What was written, how long it is, and what the storage wants to know of it when it reads."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Keeps a checkpoint. save() calls, in this order: ``reset``, ``set_up_storage_writer`` and
    ``prepare_local_plan`` on all ranks, ``prepare_global_plan`` on the first, ``write_data`` on
    all, ``finish`` on the first."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new checkpoint begins, under this name if there is one."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Whether this rank is the first one."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """A rank's plan, with what the storage adds (``storage_data``)."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """All ranks' plans, with what the storage adds."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Writes the items, which ``planner.resolve_data`` gives; a future of WriteResults."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Everything is written: the checkpoint counts from now on."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can keep something under the name."""

    def storage_meta(self) -> StorageMeta | None:
        """What planners are told of the storage."""
        return None


class StorageReader(abc.ABC):
    """Gives a checkpoint back. load() calls, in this order: ``reset``, ``read_metadata``,
    ``set_up_storage_reader`` and ``prepare_local_plan`` on all ranks, ``prepare_global_plan`` on
    the first, ``read_data`` on all."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A checkpoint is to be read, the one of this name if there is one."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds."""

    @abc.abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """What it holds, and whether this rank is the first one."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """A rank's plan, with what the storage adds (``storage_data``)."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """All ranks' plans, with what the storage adds."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Reads the items and hands them to the planner."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can have something under the name."""


fill(globals())
