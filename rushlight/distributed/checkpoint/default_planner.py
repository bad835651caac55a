"""The planners that save and load use by themselves."""

from __future__ import annotations

import dataclasses
import io
import math
from collections import ChainMap
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.checkpoint._nested_dict import FLATTEN_MAPPING, flatten_state_dict
from rushlight.distributed.checkpoint._traverse import set_element
from rushlight.distributed.checkpoint.metadata import (
    STATE_DICT_TYPE,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.checkpoint.planner_helpers import (
    _create_read_items,
    _create_write_items,
    is_elsewhere,
    with_memory,
)
from rushlight.distributed.checkpoint.utils import find_state_dict_object

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Each rank writes its parts of DTensors; of what several ranks hold, one writes it: the one
    with the least to write so far.

    Arguments:
        flatten_state_dict: nested dicts and lists become one dict with names such as "optim.lr".
        flatten_sharded_tensors: has no effect; there are no sharded tensors inside sharded ones.
        dedup_replicated_tensors: has no effect, as in PyTorch.
        dedup_save_to_lowest_rank: what several ranks hold is written by the lowest of them.
        enable_plan_caching: plans that are as they were the last time are not sent again.
    """

    mappings: FLATTEN_MAPPING

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.mappings = {}
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self._enable_plan_caching = enable_plan_caching
        self._cached_plans_key: str = type(self).__name__

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        """Takes the state dict, flat or as it is."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.is_coordinator = is_coordinator
        if self._enable_plan_caching and dist.is_initialized():
            # Ranks may be threads of one process.
            self._cached_plans_key = f"{type(self).__name__} of rank {dist.get_rank()}"

    def create_local_plan(self) -> SavePlan:
        """All that this rank holds."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        self._changed = self._cached_save_plan.get(self._cached_plans_key) != plan
        if self._enable_plan_caching and not self._changed:
            return SavePlan([], usable=False)
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Who writes what; each thing is written once."""
        if not self._enable_plan_caching:
            self.global_plan, self.metadata = self._decided(all_plans)
            return self.global_plan, self.metadata
        key = self._cached_plans_key
        before = self._cached_all_plans.get(key, all_plans)
        merged = [new if new.usable else old for old, new in zip(before, all_plans, strict=True)]
        known = self._cached_global_plan.get(key)
        if known is None or any(plan.usable for plan in all_plans):
            self.global_plan, self.metadata = self._decided(merged)
        else:
            self.global_plan, self.metadata = known, self._cached_metadata[key]
        self._cached_all_plans[key] = merged
        self._cached_global_plan[key] = self.global_plan
        self._cached_metadata[key] = self.metadata
        if known is None:
            return self.global_plan, self.metadata
        sent = [
            SavePlan([], usable=False) if new == old else new
            for old, new in zip(known, self.global_plan, strict=True)
        ]
        return sent, self.metadata

    def _decided(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = _written_once(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            paths = dict(ChainMap(*[plan.planner_data for plan in plans]))
            metadata = dataclasses.replace(metadata, planner_data=paths)
        wrong = _faults(metadata, complete=len(plans) > 1)
        if wrong:
            raise ValueError(f"distributed.checkpoint.save: {'; '.join(wrong)[:1000]}")
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The plan that came back."""
        if self._enable_plan_caching:
            key = self._cached_plans_key
            if not new_plan.usable:
                new_plan = self._cached_final_save_plan[key]
            self._cached_final_save_plan[key] = new_plan
            if self._changed:
                self._cached_save_plan[key] = self.plan
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor, or the value as save() writes it."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value in the state dict, to be replaced by planners that have it elsewhere."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Tensor | io.BytesIO:
        """What is written of a value, to be replaced by planners that change it."""
        if write_item.type == WriteItemType.BYTE_IO:
            data = io.BytesIO()
            rushlight.save(object, data)
            return data
        return object


class DefaultLoadPlanner(LoadPlanner):
    """Fills the tensors of a state dict, and puts the other values into it.

    Arguments:
        flatten_state_dict: as when it was saved.
        flatten_sharded_tensors: has no effect.
        allow_partial_load: what the checkpoint does not have is left as it is, and no error.
    """

    original_state_dict: STATE_DICT_TYPE
    mappings: FLATTEN_MAPPING

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.original_state_dict = {}
        self.mappings = {}
        self.allow_partial_load = allow_partial_load

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        """Takes the state dict, flat or as it is; tensors on the meta device get memory."""
        self.original_state_dict = with_memory(state_dict)
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """What this rank needs of each name."""
        if self.metadata is None:
            raise ValueError("DefaultLoadPlanner: set_up_planner was given no metadata")
        known = self.metadata.state_dict_metadata
        if self.flatten_state_dict and not known.keys() <= self.state_dict.keys():
            old, paths = flatten_state_dict(self.original_state_dict, _as_before_2_4=True)
            if (old.keys() - self.state_dict.keys()) & known.keys():
                self.state_dict, self.mappings = old, paths
        return create_default_local_load_plan(
            self.state_dict, self.metadata, not self.allow_partial_load
        )

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Puts the value into the state dict. Nothing in it is run: what load() does not accept is
        allowed by serialization.add_safe_globals."""
        name = read_item.dest_index.fqn
        found = rushlight.load(value, weights_only=True)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)
        else:
            self.state_dict[name] = found

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The box of the tensor that is to be filled."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing: the tensor is in the state dict."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The tensor in the state dict, to be replaced by planners that have it elsewhere."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The box of a tensor."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Makes the state dict of what the checkpoint holds: all, or what is below the given keys."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _is_wanted(self, name: str, path: tuple[str | int, ...]) -> bool:
        if self.keys is None or name in self.keys:
            return True
        return any(".".join(map(str, path[:n])) in self.keys for n in range(1, len(path)))

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        """Fills an empty state dict with room for what is to be read."""
        if state_dict or metadata is None:
            raise ValueError(f"{type(self).__name__} needs an empty state dict, and metadata")
        paths = metadata.planner_data or {}
        for name, md in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if self._is_wanted(name, path):
                room = isinstance(md, TensorStorageMetadata)
                value = rushlight.empty(md.size, dtype=md.properties.dtype) if room else None  # type: ignore[union-attr]
                set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def narrowed(tensor: Tensor, offsets: Any, lengths: Any) -> Tensor:
    """A box of a tensor, as a view."""
    for dim, (start, length) in enumerate(zip(offsets, lengths, strict=True)):
        if start != 0 or length != tensor.shape[dim]:
            tensor = tensor.narrow(dim, start, length)
    return tensor


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What this rank needs of the checkpoint to fill a flat state dict; unless strict, what the
    checkpoint does not have is left out."""
    items = []
    for name, value in state_dict.items():
        md = metadata.state_dict_metadata.get(name)
        if md is None:
            if strict:
                raise RuntimeError(f"distributed.checkpoint.load: the checkpoint has no {name!r}")
            continue
        if isinstance(md, TensorStorageMetadata) and isinstance(value, Tensor):
            if tuple(md.size) != tuple(value.shape):
                raise ValueError(
                    f"distributed.checkpoint.load: {name} has shape {list(md.size)} in the "
                    f"checkpoint, and {list(value.shape)} here"
                )
        if not is_elsewhere(value):
            items += _create_read_items(name, md, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The ranks' plans, as they are."""
    return all_plans


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """All that this rank holds of a flat state dict."""
    items = []
    for name, value in state_dict.items():
        if not is_elsewhere(value):
            items += _create_write_items(name, value)
    return SavePlan(items)


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """What the checkpoint will hold by these plans. With rewrite_index_hints, items know their
    place among the chunks of their tensor."""
    md: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name = item.index.fqn
            if item.type != WriteItemType.SHARD and name in md:
                raise ValueError(f"distributed.checkpoint.save: two ranks would write {name!r}")
            if item.tensor_data is None:
                md[name] = BytesStorageMetadata()
            else:
                data = item.tensor_data
                found = md.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                if rewrite_index_hints:
                    index = dataclasses.replace(item.index, index=len(found.chunks))
                    item = dataclasses.replace(item, index=index)
                if (found.size, found.properties.dtype) != (data.size, data.properties.dtype):
                    raise ValueError(
                        f"distributed.checkpoint.save: {name} is {data.properties.dtype} "
                        f"{list(data.size)} on one rank, and {found.properties.dtype} "
                        f"{list(found.size)} on another"
                    )
                found.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(md)


def _written_once(plans: list[SavePlan], lowest: bool) -> list[SavePlan]:
    """The plans without what another rank writes."""
    holders: dict[MetadataIndex, list[int]] = {}
    found: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            same = found.setdefault(item.index, item)
            if item.tensor_data is not None and same.tensor_data is not None:
                mine, other = item.tensor_data, same.tensor_data
                if (mine.size, mine.properties.dtype) != (other.size, other.properties.dtype):
                    raise ValueError(
                        f"distributed.checkpoint.save: {item.index.fqn} is "
                        f"{mine.properties.dtype} {list(mine.size)} on rank {rank}, and "
                        f"{other.properties.dtype} {list(other.size)} on another"
                    )
            holders.setdefault(item.index, []).append(rank)
    load = [0] * len(plans)
    chosen = {}
    for index, ranks in holders.items():
        chosen[index] = min(ranks) if lowest else min(ranks, key=lambda r: load[r])
        load[chosen[index]] += found[index].tensor_storage_size() or 1
    return [
        dataclasses.replace(plan, items=[i for i in plan.items if chosen[i.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _overlap(a: ChunkStorageMetadata, b: ChunkStorageMetadata) -> bool:
    boxes = zip(a.offsets, a.sizes, b.offsets, b.sizes, strict=True)
    return all(i < j + m and j < i + n for i, n, j, m in boxes)


def _faults(metadata: Metadata, complete: bool) -> list[str]:
    """What is wrong with the chunks: outside of their tensor, over each other, or not all."""
    wrong = []
    for name, md in metadata.state_dict_metadata.items():
        if isinstance(md, BytesStorageMetadata):
            continue
        for chunk in md.chunks:
            box = zip(chunk.offsets, chunk.sizes, md.size, strict=True)
            if any(o < 0 or n < 0 or o + n > whole for o, n, whole in box):
                wrong.append(f"a chunk of {name} is outside of {list(md.size)}: {chunk}")
        # In the order in which they begin, few can meet.
        chunks = sorted(md.chunks, key=lambda c: tuple(c.offsets))
        for i, chunk in enumerate(chunks):
            for other in chunks[i + 1 :]:
                if chunk.offsets and other.offsets[0] >= chunk.offsets[0] + chunk.sizes[0]:
                    break
                if _overlap(chunk, other):
                    wrong.append(f"two chunks of {name} overlap: {chunk} and {other}")
        there = sum(math.prod(chunk.sizes) for chunk in md.chunks)
        if complete and there != math.prod(md.size):
            wrong.append(f"the chunks of {name} have {there} of {math.prod(md.size)} elements")
    return wrong


fill(globals())
