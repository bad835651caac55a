"""Checkpoints in folders: files of items, and `.metadata`, which is put in place last."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import json
import os
import pickle
import re
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any, cast

import rushlight
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.checkpoint._file_system import (
    FileSystem,
    FileSystemBase,
    FileView,
    Place,
    flush,
)
from rushlight.distributed.checkpoint.default_planner import narrowed
from rushlight.distributed.checkpoint.metadata import Metadata, StorageMeta
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.checkpoint.staging import BlockingAsyncStager
from rushlight.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from rushlight.futures import Future
from rushlight.utils import safetensors
from rushlight.utils.safetensors._format import NAME_OF_DTYPE

__all__ = [
    "FileSystem",
    "FileSystemBase",
    "FileSystemReader",
    "FileSystemWriter",
    "SerializationFormat",
]

DEFAULT_SUFFIX = ".distcp"
_SAFETENSORS_SUFFIX = ".safetensors"
_METADATA = ".metadata"
_OFFSETS = "DCP_SHARDING_INFO"  # in safetensors files: where their parts begin
CURRENT_DCP_VERSION = "1.0.0"
# Files that a save may leave behind when it is killed; a later one removes them.
_OURS = re.compile(
    r"(([0-9a-f]{12})?__\d+_\d+\.(distcp|safetensors)|\.metadata\.[0-9a-f-]{36}\.tmp)$"
)
_under_way: set[str] = set()  # folders that this process has named files for
_STALE = 3600  # seconds; younger files may be those of a save that is under way


@dataclass
class _StorageInfo:
    """Where an item is: the file, and which of its bytes."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if value is not None}


@dataclass
class _StoragePrefix:
    """How a rank's files begin."""

    prefix: str


class SerializationFormat(Enum):
    """How tensors are written: each as save() does, which PyTorch reads, or a safetensors file."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


def _nbytes(item: WriteItem) -> int:
    if item.tensor_data is None:
        return 0
    count = 1
    for n in item.tensor_data.chunk.sizes:
        count *= n
    return count * item.tensor_data.properties.dtype.itemsize


def _shared_out(items: list[WriteItem], count: int) -> list[list[WriteItem]]:
    """The items in so many lists of about the same number of bytes."""
    bins: list[list[WriteItem]] = [[] for _ in range(count)]
    sizes = [0] * count
    for item in sorted(items, key=_nbytes, reverse=True):
        least = sizes.index(min(sizes))
        bins[least].append(item)
        sizes[least] += _nbytes(item) + 1
    return [sorted(b, key=items.index) if count > 1 else items for b in bins if b]


def _on_host(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()


class _OfFolder:
    """What the writer and the reader of a folder share."""

    path: Place

    @property
    def checkpoint_id(self) -> Place:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Place) -> bool:
        """Whether it is a path of this machine's."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FileSystemWriter(_OfFolder, StorageWriter, BlockingAsyncStager):
    """Writes a checkpoint into a folder.

    The files are those of PyTorch, which reads them: one per rank with the items one behind the
    other, and `.metadata`. That one is put in place last and at once; a folder that has a
    checkpoint keeps it until then.

    Arguments:
        path: the folder.
        single_file_per_rank: a file per rank (and thread), or one per item.
        sync_files: files are flushed to the disk before the checkpoint counts.
        thread_count: how many threads write, each its own files.
        per_thread_copy_ahead: has no effect.
        cache_staged_state_dict: async_save keeps the memory of its copy for the next one.
        overwrite: whether a checkpoint that is there may be replaced; else RuntimeError.
        serialization_format: SAFETENSORS writes the tensors of a rank as one safetensors file.

    Example:
        >>> import tempfile
        >>> import rushlight.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = dcp.save({"x": rl.ones(3)}, storage_writer=dcp.FileSystemWriter(folder))
        ...     state = {"x": rl.zeros(3)}
        ...     dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
        >>> state
        {'x': tensor([1., 1., 1.])}
    """

    def __init__(
        self, path: Place, single_file_per_rank: bool = True, sync_files: bool = True,
        thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False, overwrite: bool = True, _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:  # fmt: skip
        BlockingAsyncStager.__init__(self, cache_staged_state_dict=cache_staged_state_dict)
        if _extensions:
            raise NotImplementedError("FileSystemWriter: extensions of streams are not there")
        if not isinstance(thread_count, int) or thread_count < 1:
            raise ValueError(f"FileSystemWriter: thread_count must be positive, got {thread_count}")
        self.fs: FileSystemBase = FileSystem()
        self.path: Place = self.fs.init_path(path)
        self.single_file_per_rank = single_file_per_rank
        self.sync_files = sync_files
        self.thread_count = thread_count
        self.per_thread_copy_ahead = per_thread_copy_ahead
        self.overwrite = overwrite
        self.serialization_format = SerializationFormat(serialization_format)
        self.save_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True
        self._begun: list[Place] = []  # files of this save

    def reset(self, checkpoint_id: Place | None = None) -> None:
        """A new checkpoint begins, in this folder if one is named."""
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Takes ``rank`` and ``use_collectives``."""
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def _metadata_path(self) -> Place:
        alone = not self.use_collectives and self.rank is not None
        return self.fs.concat_path(self.path, f"__{self.rank}{_METADATA}" if alone else _METADATA)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Makes the folder."""
        self.fs.mkdir(self.path)
        if not self.overwrite and self.fs.exists(self._metadata_path()):
            raise RuntimeError(
                f"FileSystemWriter: {os.fspath(self.path)} holds a checkpoint, and overwrite=False"
            )
        if not self.use_collectives and self.rank is not None:
            plan = dataclasses.replace(plan, storage_data=self._prefix(self.rank))
        return plan

    def _prefix(self, rank: int) -> _StoragePrefix:
        # A checkpoint that is there keeps its files until the new one is whole.
        taken = self.fs.exists(self._metadata_path()) or self._folder() in _under_way
        return _StoragePrefix(f"{uuid.uuid4().hex[:12] if taken else ''}__{rank}_")

    def _folder(self) -> str:
        return os.path.abspath(self.path)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Names each rank's files."""
        named = [
            plan
            if plan.storage_data is not None
            else dataclasses.replace(plan, storage_data=self._prefix(rank))
            for rank, plan in enumerate(plans)
        ]
        _under_way.add(self._folder())
        return named

    def _files_of(self, plan: SavePlan) -> list[tuple[str, list[WriteItem]]]:
        """The names of this rank's files, and what goes into each."""
        groups = _shared_out(plan.items, self.thread_count)
        if not self.single_file_per_rank:
            groups = [[item] for item in plan.items]
        return [(f"{plan.storage_data.prefix}{n}", items) for n, items in enumerate(groups)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Writes the files, in threads if there are to be several."""
        todo = self._files_of(plan)
        self._begun = []
        results: list[WriteResult] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while not errors:
                    try:
                        name, items = todo.pop(0)
                    except IndexError:
                        return
                    results.extend(self._write_file(name, items, planner))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(self.thread_count - 1)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        done = Future()
        done.set_result(results)
        return done

    def _write_file(
        self, name: str, items: list[WriteItem], planner: SavePlanner
    ) -> list[WriteResult]:
        results, tensors, offsets = [], {}, {}
        apart = self._for_safetensors(items)
        inside = [item for item in items if item.index.fqn not in apart]
        if inside:
            path = self.fs.concat_path(self.path, name + DEFAULT_SUFFIX)
            self._begun.append(path)
            with self.fs.create_stream(path, "wb") as stream:
                for item in inside:
                    results.append(_written(stream, item, planner, name + DEFAULT_SUFFIX))
                if self.sync_files:
                    flush(stream)
        for item in items:
            if item.index.fqn not in apart:
                continue
            tensor = _on_host(planner.resolve_data(item))  # type: ignore[arg-type]
            # The format has no shared memory; tied weights are written twice.
            shared = any(t.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
                         for t in tensors.values())  # fmt: skip
            tensors[item.index.fqn] = tensor.clone() if shared else tensor
            offsets[item.index.fqn] = {"saved_offsets": list(item.index.offset or ())}
            info = _StorageInfo(name + _SAFETENSORS_SUFFIX, 0, tensor.nbytes)
            results.append(WriteResult(item.index, tensor.nbytes, info))
        if tensors:
            path = self.fs.concat_path(self.path, name + _SAFETENSORS_SUFFIX)
            self._begun.append(path)
            about = {"format": "pt", "DCP_VERSION": "1.0", _OFFSETS: json.dumps(offsets)}
            with self.fs.create_stream(path, "wb") as stream:
                safetensors.save_file(tensors, stream, about)
                if self.sync_files:
                    flush(stream)
        return results

    def _for_safetensors(self, items: list[WriteItem]) -> set[str]:
        """Names of tensors that such a file takes: of its dtypes, one part of each."""
        if self.serialization_format is not SerializationFormat.SAFETENSORS:
            return set()
        parts = collections.Counter(item.index.fqn for item in items)
        return {
            item.index.fqn
            for item in items
            if item.tensor_data is not None
            and item.tensor_data.properties.dtype in NAME_OF_DTYPE
            and parts[item.index.fqn] == 1
        }

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Puts `.metadata` in place; files of the checkpoint before go."""
        from rushlight.distributed.checkpoint._metadata_file import dumps

        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {r.index: r.storage_data for rank in results for r in rank}
        metadata.storage_meta = self.storage_meta()
        path = self._metadata_path()
        before = self._files_before()
        draft = self.fs.concat_path(self.path, f"{os.path.basename(path)}.{self.save_id}.tmp")
        with self.fs.create_stream(draft, "wb") as stream:
            stream.write(dumps(metadata))
            if self.sync_files:
                flush(stream)
        self.fs.rename(draft, path)
        _under_way.discard(self._folder())
        if self.use_collectives and isinstance(self.fs, FileSystem):
            kept = {r.storage_data.relative_path for rank in results for r in rank}
            self._remove_old(before - kept, kept)

    def _files_before(self) -> set[str]:
        """Those of the checkpoint that is there."""
        from rushlight.distributed.checkpoint._metadata_file import read

        try:
            with self.fs.create_stream(self._metadata_path(), "rb") as stream:
                found = read(stream.read(), "the old metadata").storage_data
            return {info.relative_path for info in found.values()}
        except (OSError, pickle.UnpicklingError, AttributeError):
            return set()  # none, or of another kind: then its files are not ours

    def _remove_old(self, named: set[str], kept: set[str]) -> None:
        """What the replaced metadata named, and what saves that were killed have left long ago."""
        assert isinstance(self.fs, FileSystem)
        for file in self.fs.ls(self.path):
            name = os.path.basename(file)
            with contextlib.suppress(OSError):  # the new checkpoint is whole all the same
                stale = time.time() - os.stat(file).st_mtime > _STALE
                if _OURS.match(name) and name not in kept and (name in named or stale):
                    self.fs.rm_file(file)

    def _discard(self) -> None:
        """The save has failed: this rank's files go."""
        _under_way.discard(self._folder())
        for path in self._begun:
            with contextlib.suppress(OSError):
                self.fs.rm_file(path)

    def storage_meta(self) -> StorageMeta | None:
        """The folder, and the number of this save."""
        return StorageMeta(checkpoint_id=os.fspath(self.path), save_id=self.save_id)


def _written(stream: Any, item: WriteItem, planner: SavePlanner, file: str) -> WriteResult:
    start = stream.tell()
    data = planner.resolve_data(item)
    if item.type == WriteItemType.BYTE_IO:
        if not isinstance(data, io.BytesIO):
            raise TypeError(f"resolve_data must give BytesIO for {item.index.fqn}, got {data!r}")
        stream.write(data.getbuffer())
    else:
        if not isinstance(data, Tensor):
            raise TypeError(f"resolve_data must give a tensor for {item.index.fqn}, got {data!r}")
        rushlight.save(_on_host(data), stream)
    length = stream.tell() - start
    return WriteResult(item.index, length, _StorageInfo(file, start, length))


class FileSystemReader(_OfFolder, StorageReader):
    """Reads a checkpoint from a folder, which FileSystemWriter wrote, here or in PyTorch.

    Arguments:
        path: the folder.
    """

    def __init__(self, path: Place, _extension_registry: Any = None) -> None:
        self.fs: FileSystemBase = FileSystem()
        self.path: Place = self.fs.init_path(path)
        self.storage_data: dict[Any, Any] = {}
        self.load_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: Place | None = None) -> None:
        """A checkpoint is to be read, from this folder if one is named."""
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds; with ``rank``, what that rank wrote by itself. Nothing in the
        file is run."""
        from rushlight.distributed.checkpoint._metadata_file import read

        rank = kwargs.get("rank")
        name = _METADATA if rank is None else f"__{rank}{_METADATA}"
        path = self.fs.concat_path(self.path, name)
        try:
            with self.fs.create_stream(path, "rb") as stream:
                found = read(stream.read(), os.fspath(path))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"distributed.checkpoint: {os.fspath(self.path)} holds no whole checkpoint: there "
                f"is no {name} in it"
            ) from None
        found.storage_meta = found.storage_meta or StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Takes what the metadata say of files."""
        if metadata.storage_data is None:
            raise ValueError("FileSystemReader: the metadata do not say which files there are")
        self.storage_data = metadata.storage_data
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Reads each item and hands it to the planner, file by file."""
        files: dict[str, list[tuple[ReadItem, _StorageInfo]]] = {}
        for item in plan.items:
            info = self.storage_data.get(item.storage_index)
            if not isinstance(info, _StorageInfo):
                raise ValueError(
                    f"FileSystemReader: no file has {item.storage_index.fqn} at "
                    f"{item.storage_index.offset}"
                )
            if info.transform_descriptors:
                raise NotImplementedError(
                    f"FileSystemReader: {info.relative_path} was written through extensions "
                    f"{list(info.transform_descriptors)}, which are not there"
                )
            files.setdefault(info.relative_path, []).append((item, info))
        with rushlight.no_grad():
            for name, items in files.items():
                path = self.fs.concat_path(self.path, name)
                if name.endswith(_SAFETENSORS_SUFFIX):
                    self._read_safetensors(path, items, planner)
                    continue
                with self.fs.create_stream(path, "rb") as stream:
                    for item, info in sorted(items, key=lambda pair: pair[1].offset):
                        _read_item(FileView(stream, info.offset, info.length), item, planner)
        done = Future()
        done.set_result(None)
        return done

    def _read_safetensors(self, path: Place, items: Any, planner: LoadPlanner) -> None:
        with safetensors.safe_open(os.fspath(path), "pt") as file:
            for item, _ in items:
                part = file.get_slice(item.storage_index.fqn)
                ends = zip(item.storage_offsets, item.lengths, strict=True)
                box = tuple(slice(first, first + n) for first, n in ends)
                _hand_over(part[box] if box else part[...], item, planner)


def _read_item(view: FileView, item: ReadItem, planner: LoadPlanner) -> None:
    if item.type == LoadItemType.BYTE_IO:
        planner.load_bytes(item, io.BytesIO(view.readall()))
        return
    found = rushlight.load(cast(IO[bytes], view), map_location="cpu", weights_only=True)
    if not isinstance(found, Tensor):
        raise ValueError(f"FileSystemReader: {item.storage_index.fqn} is no tensor in its file")
    _hand_over(narrowed(found, item.storage_offsets, item.lengths), item, planner)


def _hand_over(found: Tensor, item: ReadItem, planner: LoadPlanner) -> None:
    target = planner.resolve_tensor(item).detach()
    if tuple(target.shape) != tuple(found.shape):
        raise ValueError(
            f"distributed.checkpoint: {item.storage_index.fqn}: resolve_tensor gave a tensor of "
            f"{list(target.shape)} for {list(found.shape)}"
        )
    target.copy_(found)
    planner.commit_tensor(item, target)


fill(globals())
