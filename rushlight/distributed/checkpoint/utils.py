"""What the ranks of a checkpoint say to each other, and how they learn of each other's errors."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.checkpoint.api import (
    WRAPPED_EXCEPTION,
    CheckpointException,
    _is_wrapped_exception,
    _wrap_exception,
)
from rushlight.distributed.checkpoint.metadata import STATE_DICT_TYPE, MetadataIndex
from rushlight.distributed.tensor._dtensor import DTensor, local_of

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def _get_failure_dict(results: list[Any]) -> dict[int, WRAPPED_EXCEPTION]:
    """{rank: error} of those results that are errors."""
    return {rank: r for rank, r in enumerate(results) if _is_wrapped_exception(r)}


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Tensor:
    """What this rank holds of a tensor."""
    if isinstance(tensor, DTensor):
        return local_of(tensor).detach()
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    if index.offset is not None and any(index.offset):
        raise ValueError(
            f"distributed.checkpoint: {index.fqn} is a whole tensor, and has no part at "
            f"{list(index.offset)}"
        )
    return tensor


def find_state_dict_object(state_dict: STATE_DICT_TYPE, index: MetadataIndex) -> Any:
    """The value of a flat state dict, or what this rank holds of it.

    Example:
        >>> from rushlight.distributed.checkpoint.metadata import MetadataIndex
        >>> from rushlight.distributed.checkpoint.utils import find_state_dict_object
        >>> find_state_dict_object({"lr": 0.1}, MetadataIndex("lr"))
        0.1
    """
    if index.fqn not in state_dict:
        raise ValueError(f"distributed.checkpoint: the state dict has no {index.fqn!r}")
    found = state_dict[index.fqn]
    if isinstance(found, Tensor) or hasattr(found, "__get_tensor_shard__"):
        return find_tensor_shard(found, index)
    if index.offset is not None:
        raise ValueError(f"distributed.checkpoint: {index.fqn!r} is no tensor, and has no parts")
    return found


def _attempt(action: Callable[[], Any]) -> Any:
    """What it returns, or its error as others can read it."""
    try:
        return action()
    except (Exception, CheckpointException) as error:
        wrapped = _wrap_exception(error)
        try:
            pickle.loads(pickle.dumps(wrapped))
        except Exception:  # an error that does not travel
            wrapped = RuntimeError(f"{type(error).__name__}: {error}"), wrapped[1]
        return wrapped


class _DistWrapper:
    """The ranks that save or load together; or this process alone. Where a step fails on some
    ranks, all raise CheckpointException."""

    def __init__(self, group: Any, use_dist: bool, coordinator_rank: int) -> None:
        self.group, self.use_dist, self.coordinator_rank = group, use_dist, coordinator_rank
        self.rank = dist.get_rank(group) if use_dist else 0
        self.is_coordinator = not use_dist or self.rank == coordinator_rank

    def get_rank(self) -> int:
        """The rank in the group."""
        return self.rank

    def get_world_size(self) -> int:
        """How many there are."""
        return dist.get_world_size(self.group) if self.use_dist else 1

    def broadcast_object(self, object: Any) -> Any:
        """The first rank's object."""
        shared = [object]
        if self.use_dist:
            dist.broadcast_object_list(shared, group=self.group, group_src=self.coordinator_rank)
        return shared[0]

    def gather_object(self, object: Any) -> list[Any] | None:
        """On the first rank, the objects of all."""
        if not self.use_dist:
            return [object]
        every: list[Any] | None = [None] * self.get_world_size() if self.is_coordinator else None
        dist.gather_object(object, every, group=self.group, group_dst=self.coordinator_rank)
        return every

    def all_gather_object(self, object: Any) -> list[Any]:
        """The objects of all."""
        every = [object] * self.get_world_size()
        if self.use_dist:
            dist.all_gather_object(every, object, self.group)
        return every

    def scatter_object(self, object_list: list[Any] | None) -> Any:
        """This rank's object of the first rank's list."""
        if not self.use_dist:
            return (object_list or [None])[0]
        mine = [None]
        given = object_list if self.is_coordinator else None
        dist.scatter_object_list(mine, given, group=self.group, group_src=self.coordinator_rank)
        return mine[0]

    def barrier(self) -> None:
        """Waits for all."""
        if self.use_dist:
            dist.barrier(self.group)

    def _on_first(self, step: str, mine: Any, reduce_fun: Callable[[list[Any]], Any]) -> Any:
        """On the first rank: what becomes of all ranks' results, or the error of some."""
        every = self.gather_object(mine)
        if every is None:
            return None
        failures = _get_failure_dict(every)
        if not failures:
            result = _attempt(lambda: reduce_fun(every))
            if not _is_wrapped_exception(result):
                return result
            failures = {self.rank: result}
        return CheckpointException(step, failures)

    def _result(self, result: Any) -> Any:
        if isinstance(result, CheckpointException):
            raise result
        return result

    def reduce_scatter(
        self, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], list[Any]]
    ) -> Any:
        """What reduce_fun makes, on the first rank, of all ranks' map_fun; each gets its own."""
        result = self._on_first(step, _attempt(map_fun), reduce_fun)
        if isinstance(result, CheckpointException):
            result = [result] * self.get_world_size()
        return self._result(self.scatter_object(result))

    def all_reduce(
        self, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], Any]
    ) -> Any:
        """What reduce_fun makes, on the first rank, of all ranks' map_fun; all get it."""
        return self._result(
            self.broadcast_object(self._on_first(step, _attempt(map_fun), reduce_fun))
        )

    def all_gather(self, step: str, map_fun: Callable[[], Any]) -> list[Any]:
        """All ranks' map_fun."""
        every = self.all_gather_object(_attempt(map_fun))
        failures = _get_failure_dict(every)
        if failures:
            raise CheckpointException(step, failures)
        return every

    def broadcast(self, step: str, map_fun: Callable[[], Any]) -> Any:
        """The first rank's map_fun."""
        result: Any = _attempt(map_fun) if self.is_coordinator else None
        if _is_wrapped_exception(result):
            result = CheckpointException(step, {self.rank: result})
        return self._result(self.broadcast_object(result))


_WAIT = timedelta(hours=2)  # for the slowest rank's disk


class StoreWrapper(_DistWrapper):
    """The same through the store, for threads: collectives are the training's. Whoever reaches the
    store's port could write there, so what is read from it is data and nothing else."""

    def __init__(self, wrapper: _DistWrapper, name: str, store: Any) -> None:
        self.group, self.use_dist = wrapper.group, wrapper.use_dist
        self.coordinator_rank = wrapper.coordinator_rank
        self.rank, self.is_coordinator = wrapper.rank, wrapper.is_coordinator
        self._size = wrapper.get_world_size()
        self._name, self._store, self._step = name, store, 0

    def get_world_size(self) -> int:
        """How many there are."""
        return self._size

    def _key(self, rank: int) -> str:
        return f"checkpoint/{self._name}/{self._step}/{rank}"

    def broadcast_object(self, object: Any) -> Any:
        """The first rank's object."""
        if not self.use_dist:
            return object
        self._step += 1
        key = self._key(self.coordinator_rank)
        if self.is_coordinator:
            self._store.set(key, _as_bytes(object))
            return object
        self._store.wait([key], _WAIT)
        return _as_object(self._store.get(key))

    def gather_object(self, object: Any) -> list[Any] | None:
        """On the first rank, the objects of all."""
        if not self.use_dist:
            return [object]
        self._step += 1
        self._store.set(self._key(self.rank), _as_bytes(object))
        if not self.is_coordinator:
            return None
        keys = [self._key(rank) for rank in range(self._size)]
        self._store.wait(keys, _WAIT)
        return [_as_object(self._store.get(key)) for key in keys]


def _as_bytes(value: Any) -> bytes:
    """A value, or errors by their texts."""
    from rushlight.distributed.checkpoint._metadata_file import dumps

    failures = {0: value} if _is_wrapped_exception(value) else None
    if isinstance(value, CheckpointException):
        failures = value.failures
    if failures is None:
        return b"v" + dumps(value)
    texts = {r: f"{type(error).__name__}: {error}" for r, (error, _) in failures.items()}
    return (b"e" if _is_wrapped_exception(value) else b"c") + json.dumps(texts).encode()


def _as_object(data: bytes) -> Any:
    from rushlight.distributed.checkpoint._metadata_file import loads

    kind, data = data[:1], data[1:]
    if kind == b"v":
        return loads(data)
    texts = {int(r): _wrap_exception(RuntimeError(text)) for r, text in json.loads(data).items()}
    return texts[0] if kind == b"e" else CheckpointException("save", texts)


fill(globals())
