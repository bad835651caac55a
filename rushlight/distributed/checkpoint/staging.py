"""Copies of states that training does not change any more, for async_save."""

from __future__ import annotations

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import rushlight
from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.checkpoint.metadata import STATE_DICT_TYPE
from rushlight.distributed.tensor._dtensor import DTensor, local_of, wrap

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def _room(local: Tensor, before: Any, pinned: bool) -> Tensor:
    """Memory on the host for a tensor: what the last copy had, if it fits."""
    before = local_of(before) if isinstance(before, Tensor) else None
    if before is not None and (before.shape, before.dtype) == (local.shape, local.dtype):
        return before
    room = rushlight.empty(local.shape, dtype=local.dtype)
    return room.pin_memory() if pinned and rushlight.cuda.is_available() else room


def copied(value: Any, before: Any = None, pinned: bool = False) -> Any:
    """A copy on the host; tensors go into those of an earlier copy where they fit."""
    if isinstance(value, Tensor):
        local = local_of(value).detach()
        room = _room(local, before, pinned).copy_(local)
        if isinstance(value, DTensor):
            return wrap(room, value.device_mesh, tuple(value.placements), value.shape)
        return room
    if isinstance(value, dict):
        old = before if isinstance(before, dict) else {}
        return {key: copied(v, old.get(key), pinned) for key, v in value.items()}
    if type(value) in (list, tuple):
        old = before if isinstance(before, (list, tuple)) and len(before) == len(value) else None
        parts = [copied(v, None if old is None else old[i], pinned) for i, v in enumerate(value)]
        return type(value)(parts)
    return copy.deepcopy(value)


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copy that async_save writes."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether async_save calls synchronize_staging before it returns."""
        return self._synchronize_after_execute

    def stage(self, state_dict: STATE_DICT_TYPE) -> Future[STATE_DICT_TYPE] | STATE_DICT_TYPE:
        """The copy, or a future of it."""
        raise NotImplementedError(f"{type(self).__name__} has no stage method")

    def synchronize_staging(self) -> None:
        """Returns when the state may be changed."""

    def close(self) -> None:
        """Gives back what it holds."""


@dataclass
class StagingOptions:
    """How DefaultStager copies: into pinned memory, into memory that processes can share, in a
    thread, without waiting for each copy. All but the thread and sharing need CUDA."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies to the host's memory, which is kept for the next copy; with use_async_staging in a
    thread, and stage() gives a future.

    Example:
        >>> from rushlight.distributed.checkpoint.staging import DefaultStager, StagingOptions
        >>> stager = DefaultStager(StagingOptions(False, False, False, False))
        >>> stager.stage({"x": rl.ones(2)})
        {'x': tensor([1., 1.])}
        >>> stager.close()
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = config = config or StagingOptions()
        for name in ("use_pinned_memory", "use_non_blocking_copy"):
            if getattr(config, name) and not rushlight.cuda.is_available():
                raise RuntimeError(f"DefaultStager: {name} needs a GPU, and there is none")
        self._kept: Any = None
        self._pool = ThreadPoolExecutor(max_workers=1) if config.use_async_staging else None
        self._future: Future[STATE_DICT_TYPE] | None = None

    def _copied(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        made = copied(state_dict, self._kept, self._config.use_pinned_memory)
        self._kept = made
        return made

    def stage(
        self, state_dict: STATE_DICT_TYPE, **kwargs: Any
    ) -> STATE_DICT_TYPE | Future[STATE_DICT_TYPE]:
        """The copy, or a future of it. It is overwritten by the next one."""
        if self._pool is None:
            return self._copied(state_dict)
        self._future = self._pool.submit(self._copied, state_dict)
        return self._future

    def synchronize_staging(self) -> None:
        """Waits for the thread."""
        if self._future is not None:
            self._future.result()

    def close(self) -> None:
        """Ends the thread and forgets the copy."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._kept = None


class BlockingAsyncStager(AsyncStager):
    """Copies before stage() returns. With cache_staged_state_dict, the memory is kept for the next
    copy."""

    _synchronize_after_execute: bool = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict = cache_staged_state_dict
        self.type_check = type_check
        self.state_dict_cache: STATE_DICT_TYPE | None = None

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        """The copy."""
        if not self.cache_staged_state_dict:
            return copied(state_dict)
        self.state_dict_cache = copied(state_dict, self.state_dict_cache, pinned=True)
        return self.state_dict_cache

    def synchronize_staging(self) -> None:
        """Nothing: the copy is made."""

    def close(self) -> None:
        """Forgets the copy."""
        self.state_dict_cache = None


fill(globals())
