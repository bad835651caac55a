"""Folders of safetensors files as Hugging Face lays them out, read and written by all ranks."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from rushlight._C import Size
from rushlight._names.missing import fill
from rushlight.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from rushlight.distributed.checkpoint.filesystem import (
    _OFFSETS,
    FileSystemReader,
    FileSystemWriter,
    SerializationFormat,
    _StorageInfo,
)
from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType
from rushlight.distributed.checkpoint.storage import WriteResult
from rushlight.utils import safetensors

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_INDEX = "model.safetensors.index.json"


def _name(number: int, count: int, rank: int | None = None) -> str:
    """A file's name, without its end."""
    whole = f"model-{number:05d}-of-{count:05d}"
    return whole if rank is None else f"shard-{rank:05d}-{whole}"


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes a model as safetensors files; only tensors.

    Arguments:
        path: the folder.
        fqn_to_index_mapping: the number of the file, from 1, that each tensor goes to; else one.
        thread_count: how many threads write.
        save_distributed: each rank writes its parts of DTensors, in files of its own; else
            all tensors must be whole, and an index says which file has which.
        enable_consolidation: with save_distributed: the parts go to the folder "sharded", and
            the first rank puts files of whole tensors together, one after the other.
        thread_count_consolidation: has no effect.
    """

    def __init__(
        self, path: str, fqn_to_index_mapping: dict[str, int] | None = None, thread_count: int = 1,
        save_distributed: bool = False, enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(
            path, thread_count=thread_count, serialization_format=SerializationFormat.SAFETENSORS
        )
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed
        self.enable_consolidation = enable_consolidation
        self.reset(path)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new model, in this folder if one is named."""
        super().reset(checkpoint_id)
        if checkpoint_id and self.enable_consolidation:
            self.consolidated_output_path = self.path
            self.path = self.fs.concat_path(self.path, "sharded")

    def _number(self, item: WriteItem) -> int:
        if self.fqn_to_index_mapping is None:
            return 1
        if item.index.fqn not in self.fqn_to_index_mapping:
            raise ValueError(f"fqn_to_index_mapping says no file for {item.index.fqn!r}")
        return self.fqn_to_index_mapping[item.index.fqn]

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Names the files; raises for what cannot be in one."""
        for item in (item for plan in plans for item in plan.items):
            if item.type == WriteItemType.BYTE_IO or item.tensor_data is None:
                raise ValueError(f"safetensors files hold tensors, and {item.index.fqn!r} is none")
            cut = tuple(item.tensor_data.chunk.sizes) != tuple(item.tensor_data.size)
            if cut and not self.save_distributed:
                raise ValueError(
                    f"{item.index.fqn!r} is a part of a tensor; pass save_distributed=True, or "
                    "save a full state dict"
                )
        if self.save_distributed:
            count = max((self.fqn_to_index_mapping or {"": 1}).values())
            names = {(r, n): _name(n, count, r + 1) for r in range(len(plans))
                     for n in range(1, count + 1)}  # fmt: skip
        else:
            # Ranks may share the tensors: each pair of a rank and a number is a file.
            pairs = sorted({(self._number(i), r) for r, p in enumerate(plans) for i in p.items})
            names = {(r, n): _name(k + 1, len(pairs)) for k, (n, r) in enumerate(pairs)}
        return [
            dataclasses.replace(
                plan, storage_data={n: name for (r, n), name in names.items() if r == rank}
            )
            for rank, plan in enumerate(plans)
        ]

    def _files_of(self, plan: SavePlan) -> list[tuple[str, list[WriteItem]]]:
        files: dict[str, list[WriteItem]] = {}
        for item in plan.items:
            files.setdefault(plan.storage_data[self._number(item)], []).append(item)
        return list(files.items())

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes the index, of files that hold whole tensors."""
        if not self.save_distributed:
            found = {r.index.fqn: r.storage_data for rank in results for r in rank}
            sizes = sum(info.length for info in found.values())
            self._write_index(
                {n: info.relative_path for n, info in found.items()}, sizes, self.path
            )
        elif self.enable_consolidation:
            self._consolidate(list(metadata.state_dict_metadata))

    def _write_index(self, files: dict[str, str], nbytes: int, folder: Any) -> None:
        text = json.dumps({"metadata": {"total_size": nbytes}, "weight_map": files}, indent=2)
        path = self.fs.concat_path(folder, _INDEX)
        with self.fs.create_stream(f"{os.fspath(path)}.tmp", "w") as stream:
            stream.write(text)
        self.fs.rename(f"{os.fspath(path)}.tmp", path)

    def _consolidate(self, names: list[str]) -> None:
        from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict

        numbers = self.fqn_to_index_mapping or dict.fromkeys(names, 1)
        count = max(numbers.values())
        files, nbytes = {}, 0
        for number in range(1, count + 1):
            wanted = {name for name in names if numbers[name] == number}
            whole: dict[str, Any] = {}
            planner = _EmptyStateDictLoadPlanner(keys=wanted)
            reader = HuggingFaceStorageReader(os.fspath(self.path))
            _load_state_dict(whole, reader, no_dist=True, planner=planner)
            file = _name(number, count) + ".safetensors"
            path = self.fs.concat_path(self.consolidated_output_path, file)
            safetensors.save_file(whole, path, {"format": "pt"})
            files.update(dict.fromkeys(whole, file))
            nbytes += sum(t.nbytes for t in whole.values())
        self._write_index(files, nbytes, self.consolidated_output_path)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the safetensors files of a folder: whole tensors, or the parts that a writer with
    save_distributed left. Ranks read what they need of each.

    Arguments:
        path: the folder.
        thread_count: has no effect.

    Example:
        >>> import os, tempfile
        >>> import rushlight.distributed.checkpoint as dcp
        >>> from rushlight.utils import safetensors
        >>> state = {"weight": rl.zeros(2)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.safetensors")
        ...     safetensors.save_file({"weight": rl.ones(2)}, path)
        ...     dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder))
        >>> state
        {'weight': tensor([1., 1.])}
    """

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the headers of the files say."""
        tensors: dict[str, Any] = {}
        places: dict[MetadataIndex, _StorageInfo] = {}
        names = sorted(n for n in os.listdir(self.path) if n.endswith(".safetensors"))
        if not names:
            raise FileNotFoundError(
                f"HuggingFaceStorageReader: there is no safetensors file in {os.fspath(self.path)}"
            )
        for file in names:
            with safetensors.safe_open(self.fs.concat_path(self.path, file)) as opened:
                starts = json.loads((opened.metadata() or {}).get(_OFFSETS, "{}"))
                for key in opened.keys():
                    part = opened.get_slice(key)
                    sizes = Size(part.get_shape())
                    first = Size(starts.get(key, {}).get("saved_offsets", [0] * len(sizes)))
                    _add(tensors, key, part._entry.dtype, first, sizes)
                    places[MetadataIndex(key, first)] = _StorageInfo(file, 0, 0)
        meta = StorageMeta(checkpoint_id=os.fspath(self.path), load_id=self.load_id)
        return Metadata(tensors, storage_data=places, storage_meta=meta)


def _add(tensors: dict[str, Any], key: str, dtype: Any, first: Size, sizes: Size) -> None:
    """One more part of a tensor, which is as large as its parts reach."""
    if len(first) != len(sizes) or any(n < 0 for n in first):
        raise ValueError(f"HuggingFaceStorageReader: {key} is said to begin at {list(first)}")
    ends = Size([a + n for a, n in zip(first, sizes, strict=True)])
    known = tensors.get(key)
    if known is None:
        known = tensors[key] = TensorStorageMetadata(TensorProperties(dtype=dtype), ends, [])
    if (known.properties.dtype, len(known.size)) != (dtype, len(ends)):
        raise ValueError(f"HuggingFaceStorageReader: the parts of {key} do not go together")
    known.size = Size([max(a, b) for a, b in zip(known.size, ends, strict=True)])
    known.chunks.append(ChunkStorageMetadata(first, sizes))


fill(globals())
