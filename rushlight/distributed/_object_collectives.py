"""Collectives of Python objects: pickled, and sent as tensors of bytes."""

from __future__ import annotations

import pickle
from typing import Any

import rushlight
from rushlight.distributed._collectives import (
    all_gather,
    all_gather_into_tensor,
    broadcast,
    gather,
    root_of,
    scatter,
)
from rushlight.distributed._messages import recv, send
from rushlight.distributed._process_groups import _is_outside, get_rank, get_world_size
from rushlight.distributed._world import world

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _place(group, device=None):
    """Where the bytes travel: on the device that the call names, else where the group can."""
    own = world.member(group, "object collective").group._device()
    return own if device is None else rushlight.device(device)


def _as_tensor(obj, place):
    data = rushlight.frombuffer(bytearray(pickle.dumps(obj)), dtype=rushlight.uint8)
    return data.to(place)


def _as_object(tensor):
    return pickle.loads(bytes(memoryview(tensor.cpu().contiguous())))


def _lengths(parts, count, place):
    """How long the parts are; zeros where there are none yet."""
    numbers = [part.numel() for part in parts] if parts else [0] * count
    return rushlight.tensor(numbers, dtype=rushlight.int64).to(place)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Copies the objects of one rank's list into the lists of all. They are pickled: only take
    part with processes that you trust.

    Arguments:
        object_list: the objects on the source; on the others a list of that length to fill.
        src: the source, counted in the default group; rank 0 where none is named.
        group: the process group; None for the default one.
        device: where the bytes travel; None for a device that the group serves.
        group_src: the source counted in `group`, instead of `src`.

    Example:
        >>> from rushlight import distributed as dist
        >>> def share(rank):
        ...     settings = [{"lr": 0.1}, "adam"] if rank == 1 else [None, None]
        ...     dist.broadcast_object_list(settings, src=1)
        ...     return settings
        >>> dist.simulate(2, share)[0]
        [{'lr': 0.1}, 'adam']
    """
    if _is_outside(group):
        return
    group_src = root_of("broadcast_object_list", group, src, group_src, default=0)
    here = get_rank(group) == group_src
    place = _place(group, device)
    parts = [_as_tensor(obj, "cpu") for obj in object_list] if here else []
    sizes = _lengths(parts, len(object_list), place)
    broadcast(sizes, group=group, group_src=group_src)
    counts = sizes.tolist()
    if here and parts:
        data = rushlight.cat(parts).to(place)
    else:
        data = rushlight.empty(sum(counts), dtype=rushlight.uint8, device=place)
    broadcast(data, group=group, group_src=group_src)
    if not here:
        for i, part in enumerate(data.cpu().split(counts)):
            object_list[i] = _as_object(part)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fills every rank's list with the objects of all ranks. They are pickled: only take part with
    processes that you trust.

    Arguments:
        object_list: a list with a place per rank, which is filled in the order of ranks.
        obj: what this rank gives; objects of different ranks may differ in size.
        group: the process group; None for the default one.

    Example:
        >>> from rushlight import distributed as dist
        >>> def collect(rank):
        ...     names = [None, None]
        ...     dist.all_gather_object(names, "ab"[rank] * (rank + 1), group=None)
        ...     return names
        >>> dist.simulate(2, collect)
        [['a', 'bb'], ['a', 'bb']]
    """
    if _is_outside(group):
        return
    size = get_world_size(group)
    if len(object_list) != size:
        raise ValueError(
            f"all_gather_object: the list must hold one place per rank, {size}, got "
            f"{len(object_list)}"
        )
    data, counts = _padded(obj, group)
    gathered = [rushlight.empty_like(data) for _ in range(size)]
    all_gather(gathered, data, group)
    for i, (part, count) in enumerate(zip(gathered, counts, strict=True)):
        object_list[i] = _as_object(part.cpu()[:count])


def _padded(obj, group):
    """The bytes, filled up to the length of the longest rank's; and the lengths of all."""
    place, data = _place(group), _as_tensor(obj, "cpu")
    sizes = rushlight.zeros(get_world_size(group), dtype=rushlight.int64).to(place)
    all_gather_into_tensor(sizes, _lengths([data], 1, place), group)
    counts = sizes.tolist()
    padded = rushlight.zeros(max(counts), dtype=rushlight.uint8)
    padded[: data.numel()] = data
    return padded.to(place), counts


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """Fills one rank's list with the objects of all ranks. They are pickled: only take part with
    processes that you trust.

    Arguments:
        obj: what this rank gives.
        object_gather_list: on the destination a list with a place per rank; None on the others.
        dst: the destination, counted in the default group; rank 0 where none is named.
        group: the process group; None for the default one.
        group_dst: the destination counted in `group`, instead of `dst`.

    Example:
        >>> from rushlight import distributed as dist
        >>> def collect(rank):
        ...     found = [None, None] if rank == 0 else None
        ...     dist.gather_object({"rank": rank}, found, dst=0)
        ...     return found
        >>> dist.simulate(2, collect)
        [[{'rank': 0}, {'rank': 1}], None]
    """
    if _is_outside(group):
        return
    root = root_of("gather_object", group, dst, group_dst, default=0)
    here = get_rank(group) == root
    if here and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if not here and object_gather_list:
        raise ValueError(
            "Argument ``object_gather_list`` must NOT be specified on non-destination ranks."
        )
    size = get_world_size(group)
    if object_gather_list and len(object_gather_list) != size:
        raise ValueError(
            f"gather_object: the list must hold one place per rank, {size}, got "
            f"{len(object_gather_list)}"
        )
    data, counts = _padded(obj, group)
    gathered = [rushlight.empty_like(data) for _ in range(size)] if here else None
    gather(data, gathered, group=group, group_dst=root)
    if object_gather_list and gathered:
        for i, (part, count) in enumerate(zip(gathered, counts, strict=True)):
            object_gather_list[i] = _as_object(part.cpu()[:count])


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Puts the r-th object of one rank's list into the first place of rank r's output list. They
    are pickled: only take part with processes that you trust.

    Arguments:
        scatter_object_output_list: a list with at least one place; the first receives the object.
        scatter_object_input_list: on the source an object per rank; the others may pass None.
        src: the source, counted in the default group; rank 0 where none is named.
        group: the process group; None for the default one.
        group_src: the source counted in `group`, instead of `src`.

    Example:
        >>> from rushlight import distributed as dist
        >>> def deal(rank):
        ...     mine = [None]
        ...     dist.scatter_object_list(mine, ["odd", "even"] if rank == 0 else None, src=0)
        ...     return mine
        >>> dist.simulate(2, deal)
        [['odd'], ['even']]
    """
    if _is_outside(group):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("scatter_object_list: the list for the result needs room for one object")
    root = root_of("scatter_object_list", group, src, group_src, default=0)
    size = get_world_size(group)
    here = get_rank(group) == root
    if here and (scatter_object_input_list is None or len(scatter_object_input_list) != size):
        raise ValueError(f"scatter_object_list: the source needs a list of {size} objects")
    place = _place(group)
    parts = [_as_tensor(obj, "cpu") for obj in scatter_object_input_list or []] if here else []
    lengths = _lengths(parts, size, place)
    broadcast(lengths, group=group, group_src=root)
    counts = lengths.tolist()
    longest = max(counts)
    rows = [rushlight.nn.functional.pad(p, (0, longest - p.numel())).to(place) for p in parts]
    mine = rushlight.empty(longest, dtype=rushlight.uint8, device=place)
    scatter(mine, rows or None, group=group, group_src=root)
    scatter_object_output_list[0] = _as_object(mine.cpu()[: counts[get_rank(group)]])


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
    group_dst: int | None = None, use_batch: bool = False,
) -> None:  # fmt: skip
    """Sends objects to another rank, which calls recv_object_list with a list of that length. They
    are pickled.

    Arguments:
        object_list: the objects, at least one.
        dst: the receiver, counted in the default group.
        group: the process group; None for the default one.
        device: where the bytes travel; None for a device that the group serves.
        group_dst: the receiver counted in `group`, instead of `dst`.
        use_batch: accepted as PyTorch has it; changes nothing.

    Example:
        >>> from rushlight import distributed as dist
        >>> def pass_on(rank):
        ...     if rank == 0:
        ...         return dist.send_object_list(["loss", 0.5], dst=1)
        ...     found = [None, None]
        ...     dist.recv_object_list(found, src=0)
        ...     return found
        >>> dist.simulate(2, pass_on)[1]
        ['loss', 0.5]
    """
    if _is_outside(group):
        return
    place = _place(group, device)
    parts = [_as_tensor(obj, "cpu") for obj in object_list]
    root = root_of("send_object_list", group, dst, group_dst)
    send(_lengths(parts, len(parts), place), group=group, group_dst=root)
    send(rushlight.cat(parts).to(place), group=group, group_dst=root)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None, use_batch: bool = False,
) -> int:  # fmt: skip
    """Fills the list with objects that another rank sends, and returns which. They are pickled:
    only take part with processes that you trust.

    Arguments:
        object_list: a list as long as the one that is sent.
        src: the sender, counted in the default group; without `src` and `group_src`, any rank.
        group: the process group; None for the default one.
        device: where the bytes travel; None for a device that the group serves.
        group_src: the sender counted in `group`, instead of `src`.
        use_batch: accepted as PyTorch has it; changes nothing.

    Returns:
        int: the rank that sent, counted in the default group; -1 outside of the group.

    Example:
        >>> from rushlight import distributed as dist
        >>> def pass_on(rank):
        ...     if rank == 1:
        ...         return dist.send_object_list([("a", 1)], dst=0)
        ...     found = [None]
        ...     return dist.recv_object_list(found, src=1), found
        >>> dist.simulate(2, pass_on)[0]
        (1, [('a', 1)])
    """
    if _is_outside(group):
        return -1
    if src is not None or group_src is not None:
        group_src, src = root_of("recv_object_list", group, src, group_src), None
    place = _place(group, device)
    sizes = _lengths([], len(object_list), place)
    source = recv(sizes, group=group, group_src=group_src)
    counts = sizes.tolist()
    data = rushlight.empty(sum(counts), dtype=rushlight.uint8, device=place)
    recv(data, source, group)
    for i, part in enumerate(data.cpu().split(counts)):
        object_list[i] = _as_object(part)
    return source
