"""Collectives of Python objects: pickled, and sent as tensors of bytes."""

from __future__ import annotations

import pickle
from typing import Any

import rushlight
from rushlight.distributed._process_groups import (
    _is_outside,
    _rank_in,
    all_gather,
    broadcast,
    get_rank,
    get_world_size,
)
from rushlight.distributed._world import world

__all__ = ["all_gather_object", "broadcast_object_list"]


def _as_tensor(obj):
    return rushlight.frombuffer(bytearray(pickle.dumps(obj)), dtype=rushlight.uint8)


def _as_object(tensor):
    return pickle.loads(bytes(memoryview(tensor.contiguous())))


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copies the objects of one rank's list into the lists of all. They are pickled: only take
    part with processes that you trust."""
    if _is_outside(group):
        return
    if (src is None) == (group_src is None):
        raise ValueError("broadcast_object_list: one of src and group_src must be given")
    if group_src is None:
        assert src is not None
        group_src = _rank_in(world.member(group, "broadcast_object_list"), src)
    here = get_rank(group) == group_src
    parts = [_as_tensor(obj) for obj in object_list] if here else []
    sizes = rushlight.zeros(len(object_list), dtype=rushlight.int64)
    if here:
        sizes = rushlight.tensor([part.numel() for part in parts], dtype=rushlight.int64)
    broadcast(sizes, group=group, group_src=group_src)
    total = int(sizes.sum())
    data = rushlight.cat(parts) if here and parts else rushlight.empty(total, dtype=rushlight.uint8)
    broadcast(data, group=group, group_src=group_src)
    if not here:
        for i, part in enumerate(data.split(sizes.tolist())):
            object_list[i] = _as_object(part)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fills every rank's list with the objects of all ranks. They are pickled: only take part with
    processes that you trust."""
    if _is_outside(group):
        return
    size = get_world_size(group)
    if len(object_list) != size:
        raise ValueError(
            f"all_gather_object: the list must hold one place per rank, {size}, got "
            f"{len(object_list)}"
        )
    data = _as_tensor(obj)
    sizes = [rushlight.zeros(1, dtype=rushlight.int64) for _ in range(size)]
    all_gather(sizes, rushlight.tensor([data.numel()], dtype=rushlight.int64), group)
    counts = [int(s) for s in sizes]
    padded = rushlight.zeros(max(counts), dtype=rushlight.uint8)
    padded[: data.numel()] = data
    gathered = [rushlight.empty_like(padded) for _ in range(size)]
    all_gather(gathered, padded, group)
    for i, (part, count) in enumerate(zip(gathered, counts, strict=True)):
        object_list[i] = _as_object(part[:count])
