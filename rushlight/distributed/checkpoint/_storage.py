"""The folder of a checkpoint, and how a state dict lies in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from rushlight._C import Tensor
from rushlight.distributed._placements import Partial, Shard, part_sizes
from rushlight.distributed.tensor._dtensor import DTensor

__all__ = ["CheckpointException", "FileSystemReader", "FileSystemWriter"]

METADATA = ".metadata"


class CheckpointException(BaseException):
    """Some ranks could not save or load; ``failures`` has their errors by rank."""

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Any]:
        """{rank: what went wrong}."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{list(self._failures)}"]
        return "\n".join([*lines, *(f"rank {r}: {e}" for r, e in self._failures.items())])


class FileSystemWriter:
    """Writes to a folder."""

    def __init__(
        self, path: str | os.PathLike[str], single_file_per_rank: bool = True,
        sync_files: bool = True, thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False, overwrite: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        self.path = os.fspath(path)
        self.sync_files, self.overwrite = sync_files, overwrite


class FileSystemReader:
    """Reads from a folder."""

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        self.path = os.fspath(path)

    def read_metadata(self) -> dict[str, Any]:
        """What the checkpoint holds: tensors with shape, dtype and parts, and other values."""
        name = os.path.join(self.path, METADATA)
        try:
            with open(name) as file:
                return json.load(file)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"distributed.checkpoint: {self.path} holds no whole checkpoint: there is no "
                f"{METADATA} in it"
            ) from None


def folder_of(checkpoint_id: Any, storage: Any) -> str:
    """Where the checkpoint is: the call names it, or the storage does."""
    if checkpoint_id is None and storage is None:
        raise RuntimeError(
            "distributed.checkpoint: either checkpoint_id or a storage (FileSystemWriter, "
            "FileSystemReader) must be given"
        )
    return os.fspath(checkpoint_id) if checkpoint_id is not None else storage.path


def is_stateful(value: Any) -> bool:
    """Has it a state_dict of its own?"""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def leaves_of(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Any, Any]]:
    """(name, value, container, key) of everything in nested dicts and lists."""
    items = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in items:
        inner = (*path, str(key))
        if isinstance(value, (dict, list)) and value:
            yield from leaves_of(value, inner)
        else:
            yield ".".join(inner), value, state, key


def region_of(tensor: Tensor) -> tuple[list[int], list[int], bool]:
    """Where this rank's part begins in the whole, its sizes, and whether this rank is the first of
    those that hold the same."""
    if not isinstance(tensor, DTensor):
        return [0] * tensor.dim(), list(tensor.shape), True
    first, sizes, is_first = [0] * tensor.dim(), list(tensor.shape), True
    mesh = tensor.device_mesh
    for mesh_dim, p in enumerate(tensor.placements):
        here = mesh.get_local_rank(mesh_dim)
        if isinstance(p, Partial):
            raise ValueError(
                "distributed.checkpoint: a partial sum cannot be saved; redistribute it"
            )
        if isinstance(p, Shard):
            parts = part_sizes(sizes[p.dim], mesh.size(mesh_dim))
            first[p.dim] += sum(parts[:here])
            sizes[p.dim] = parts[here]
        elif here != 0:
            is_first = False
    return first, sizes, is_first
