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
    """What a user's process group is told about an all_to_all.

    Arguments:
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.AllToAllOptions(asyncOp=False).asyncOp
        False
    """


@dataclass
class AllreduceOptions(_Options):
    """What a user's process group is told about an all_reduce.

    Arguments:
        reduceOp: how the tensors become one, a `ReduceOp`.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> options = dist.AllreduceOptions(reduceOp=dist.ReduceOp.MAX)
        >>> options.reduceOp.name, options.asyncOp
        ('MAX', True)
    """

    reduceOp: Any = ReduceOp.SUM


@dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    """What a user's process group is told about an all_reduce of several tensors.

    Arguments:
        reduceOp: how the tensors become one, a `ReduceOp`.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> options = dist.AllreduceCoalescedOptions(reduceOp=dist.ReduceOp.AVG)
        >>> options.reduceOp.name, isinstance(options, dist.AllreduceOptions)
        ('AVG', True)
    """


@dataclass
class ReduceScatterOptions(AllreduceOptions):
    """What a user's process group is told about a reduce_scatter.

    Arguments:
        reduceOp: how the tensors become one, a `ReduceOp`.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.ReduceScatterOptions(reduceOp=dist.ReduceOp.MIN).reduceOp.name
        'MIN'
    """


@dataclass
class BroadcastOptions(_Options):
    """What a user's process group is told about a broadcast.

    Arguments:
        rootRank: the source, counted in the group.
        rootTensor: which of the tensors is sent; 0, as a call has one.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> options = dist.BroadcastOptions(rootRank=2)
        >>> options.rootRank, options.rootTensor
        (2, 0)
    """

    rootRank: int = 0
    rootTensor: int = 0


@dataclass
class ReduceOptions(BroadcastOptions):
    """What a user's process group is told about a reduce.

    Arguments:
        rootRank: the destination, counted in the group.
        rootTensor: which of the tensors is reduced; 0, as a call has one.
        reduceOp: how the tensors become one, a `ReduceOp`.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> options = dist.ReduceOptions(rootRank=1, reduceOp=dist.ReduceOp.PRODUCT)
        >>> options.rootRank, options.reduceOp.name
        (1, 'PRODUCT')
    """

    reduceOp: Any = ReduceOp.SUM


@dataclass
class GatherOptions(_Options):
    """What a user's process group is told about a gather.

    Arguments:
        rootRank: the destination, counted in the group.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from datetime import timedelta
        >>> from rushlight import distributed as dist
        >>> options = dist.GatherOptions(rootRank=3, timeout=timedelta(seconds=20))
        >>> options.rootRank, options.timeout.seconds
        (3, 20)
    """

    rootRank: int = 0


@dataclass
class ScatterOptions(GatherOptions):
    """What a user's process group is told about a scatter.

    Arguments:
        rootRank: the source, counted in the group.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> options = dist.ScatterOptions(rootRank=1, asyncOp=False)
        >>> options.rootRank, options.asyncOp
        (1, False)
    """


@dataclass
class BarrierOptions(_Options):
    """What a user's process group is told about a barrier.

    Arguments:
        device_ids: numbers of GPUs; the library leaves the list empty.
        device: where the group makes tensors of its own.
        timeout: of this call; below zero for the group's own.
        asyncOp: whether the caller waits for the `Work` by itself.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.BarrierOptions(device_ids=[0]).device_ids
        [0]
    """

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
