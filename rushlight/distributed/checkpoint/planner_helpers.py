"""Items of plans: which boxes of a tensor this rank holds, and where they lie in a checkpoint."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Size, Tensor
from rushlight._names.missing import fill
from rushlight.distributed._placements import Partial, Shard, part_sizes
from rushlight.distributed.checkpoint.metadata import (
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.tensor._dtensor import DTensor, local_of, wrap

__all__ = ["create_read_items_for_chunk_list"]


def box_of(tensor: DTensor) -> ChunkStorageMetadata:
    """Where this rank's part lies in the whole."""
    first, sizes = [0] * tensor.dim(), list(tensor.shape)
    mesh = tensor.device_mesh
    for mesh_dim, p in enumerate(tensor.placements):
        if isinstance(p, Partial):
            raise ValueError(
                "distributed.checkpoint: a partial sum cannot be saved or loaded; redistribute it"
            )
        if isinstance(p, Shard):
            here = mesh.get_local_rank(mesh_dim)
            parts = part_sizes(sizes[p.dim], mesh.size(mesh_dim))
            first[p.dim] += sum(parts[:here])
            sizes[p.dim] = parts[here]
    return ChunkStorageMetadata(Size(first), Size(sizes))


def is_elsewhere(value: Any) -> bool:
    """A DTensor on a mesh that this rank does not belong to."""
    return isinstance(value, DTensor) and value.device_mesh.get_coordinate() is None


def _create_chunk_list(tensor: Any) -> list[ChunkStorageMetadata]:
    """The boxes that this rank holds."""
    if isinstance(tensor, DTensor):
        return [box_of(tensor)]
    if hasattr(tensor, "__create_chunk_list__"):
        return tensor.__create_chunk_list__()
    if isinstance(tensor, Tensor):
        return [ChunkStorageMetadata(Size([0] * tensor.dim()), Size(tensor.shape))]
    raise ValueError(
        f"distributed.checkpoint: expected a tensor, as the checkpoint has one, got "
        f"{type(tensor).__name__}"
    )


def _create_write_items(fqn: str, object: Any) -> list[WriteItem]:
    """What this rank has to write of a value."""
    if not isinstance(object, DTensor) and hasattr(object, "__create_write_items__"):
        return object.__create_write_items__(fqn, object)
    if not isinstance(object, Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    (chunk,) = _create_chunk_list(object)
    if 0 in chunk.sizes and 0 not in object.shape:
        return []  # nothing of this tensor is here
    kind = WriteItemType.SHARD if isinstance(object, DTensor) else WriteItemType.TENSOR
    properties = TensorProperties.create_from_tensor(local_of(object))
    data = TensorWriteData(chunk, properties, Size(object.shape))
    return [WriteItem(MetadataIndex(fqn, chunk.offsets), kind, tensor_data=data)]


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """What must be read of a tensor to fill these boxes, however it was cut when it was saved."""
    items = []
    for number, here in enumerate(local_chunks):
        found = 0
        for place, there in enumerate(checkpoint_md.chunks):
            ranges = [
                (max(a, b), min(a + n, b + m))
                for a, n, b, m in zip(
                    here.offsets, here.sizes, there.offsets, there.sizes, strict=True
                )
            ]
            if any(start >= end for start, end in ranges):
                continue
            lengths = Size([end - start for start, end in ranges])
            found += math.prod(lengths)
            starts = [start for start, _ in ranges]
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, here.offsets, number),
                    Size([s - a for s, a in zip(starts, here.offsets, strict=True)]),
                    MetadataIndex(fqn, there.offsets, place),
                    Size([s - b for s, b in zip(starts, there.offsets, strict=True)]),
                    lengths,
                )
            )
        if found != math.prod(here.sizes):
            raise ValueError(
                f"distributed.checkpoint: the checkpoint has {found} of the "
                f"{math.prod(here.sizes)} elements of {fqn} that this rank needs"
            )
    return items


def _create_read_items(fqn: str, md: STORAGE_TYPES, obj: Any) -> list[ReadItem]:
    """What must be read to fill a value."""
    if isinstance(md, BytesStorageMetadata):
        index, nothing = MetadataIndex(fqn), Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
    try:
        chunks = _create_chunk_list(obj)
    except ValueError as error:
        raise ValueError(f"{fqn}: {error}") from error
    return create_read_items_for_chunk_list(fqn, md, chunks)


def with_memory(value: Any) -> Any:
    """The same dict or list, with room for the tensors on the meta device in it."""
    if isinstance(value, Tensor):
        if value.device.type != "meta":
            return value
        device = dist.group.WORLD._device() if dist.is_initialized() and dist.group.WORLD else "cpu"
        room = rushlight.empty_like(local_of(value), device=device)
        if isinstance(value, DTensor):
            return wrap(room, value.device_mesh, tuple(value.placements), value.shape)
        return room
    if isinstance(value, dict):
        for key in value:
            value[key] = with_memory(value[key])
    elif isinstance(value, list):
        value[:] = [with_memory(v) for v in value]
    elif type(value) is tuple:
        return tuple(with_memory(v) for v in value)
    return value


fill(globals())
