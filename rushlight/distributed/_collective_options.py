"""What the methods of a user's process group are told about a collective, as in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rushlight.distributed._reductions import ReduceOp

__all__ = [
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "GatherOptions",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
]

NO_TIMEOUT = timedelta(milliseconds=-1)  # the group's own counts


@dataclass
class _Options:
    """``timeout``: of this call, below zero for the group's own. ``asyncOp``: whether the caller
    waits for the Work by itself."""

    timeout: timedelta = field(default=NO_TIMEOUT, kw_only=True)
    asyncOp: bool = field(default=True, kw_only=True)


@dataclass
class AllgatherOptions(_Options):
    """Of all_gather."""


@dataclass
class AllToAllOptions(_Options):
    """Of all_to_all."""


@dataclass
class AllreduceOptions(_Options):
    """Of all_reduce."""

    reduceOp: Any = ReduceOp.SUM


@dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    """Of all_reduce_coalesced."""


@dataclass
class ReduceScatterOptions(AllreduceOptions):
    """Of reduce_scatter."""


@dataclass
class BroadcastOptions(_Options):
    """Of broadcast; ``rootRank`` counts in the group."""

    rootRank: int = 0
    rootTensor: int = 0


@dataclass
class ReduceOptions(BroadcastOptions):
    """Of reduce."""

    reduceOp: Any = ReduceOp.SUM


@dataclass
class GatherOptions(_Options):
    """Of gather; ``rootRank`` counts in the group."""

    rootRank: int = 0


@dataclass
class ScatterOptions(GatherOptions):
    """Of scatter."""


@dataclass
class BarrierOptions(_Options):
    """Of barrier."""

    device_ids: list[int] = field(default_factory=list)
    device: Any = None


@dataclass
class _DistributedBackendOptions:
    """What a backend that is registered with ``extended_api`` is made from."""

    store: Any
    group_rank: int
    group_size: int
    timeout: timedelta
    group_id: str
    global_ranks_in_group: list[int]
