"""Going on without lost ranks: those that are left form a smaller group, in the same processes."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._groups import ProcessGroup
from rushlight.distributed._process_groups import begin, destroy_process_group, new_group
from rushlight.distributed._stores import PrefixStore
from rushlight.distributed._world import Member, world

__all__ = ["SHRINK_ABORT", "SHRINK_DEFAULT", "shrink_group", "survivors"]

SHRINK_DEFAULT, SHRINK_ABORT = 0, 1
_MEETING = timedelta(seconds=30)  # of those that are left


def survivors(group: Any = None, timeout: timedelta = timedelta(seconds=10)) -> list[int]:
    """The ranks of a group that are left, after one was lost: those that call this within
    ``timeout`` of the first one. All of them get the same list.

    Arguments:
        group: the process group; None for the default one.
        timeout: how long the first one waits for the others.

    Returns:
        list of int: ranks, counted in the group.

    Raises:
        RuntimeError: this rank came too late, and the others go on without it.

    Example:
        >>> from datetime import timedelta
        >>> from rushlight import distributed as dist
        >>> dist.simulate(3, lambda rank: dist.survivors(timeout=timedelta(seconds=60)))
        [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """
    member = world.member(group, "survivors")
    rank = member.group.rank()
    agreed = _roll_call("survivors", member, list(range(member.group.size())), timeout)
    if rank not in agreed:
        raise RuntimeError(
            f"survivors: rank {rank} came later than {timeout.total_seconds():g} s after the "
            f"first one, and ranks {agreed} go on without it"
        )
    return agreed


def _roll_call(what: str, member: Member, ranks: list[int], timeout: timedelta) -> list[int]:
    """Which of these ranks of the group call within the timeout; all of them get the same list."""
    name = f"{what}/{'-'.join(map(str, member.ranks))}/of/{'-'.join(map(str, ranks))}"
    turn = world.roll_calls[name] = world.roll_calls.get(name, 0) + 1
    store = PrefixStore(f"{name}/{turn}", world.store)
    names = [str(r) for r in ranks]
    store.set(str(member.group.rank()), "")
    deadline = time.monotonic() + timeout.total_seconds()
    while not store.check(["list"]) and not store.check(names) and time.monotonic() < deadline:
        time.sleep(0.02)
    here = [r for r in ranks if store.check([str(r)])]
    return json.loads(store.compare_set("list", "", json.dumps(here)))


def _kept(ranks_to_exclude: Any, size: int, rank: int) -> list[int]:
    out = list(ranks_to_exclude)
    if not all(isinstance(r, int) and not isinstance(r, bool) for r in out):
        raise TypeError(f"shrink_group: ranks_to_exclude must be integers, got {out}")
    if not out or len(set(out)) != len(out) or min(out) < 0 or max(out) >= size:
        raise ValueError(
            f"shrink_group: ranks_to_exclude must name different ranks from 0 to {size - 1}, at "
            f"least one, got {out}"
        )
    if len(out) == size:
        raise ValueError("shrink_group: no rank would be left")
    if rank in out:
        raise RuntimeError(f"shrink_group: rank {rank} is to be excluded, and must not call")
    return [r for r in range(size) if r not in out]


def shrink_group(
    ranks_to_exclude: list[int], group: ProcessGroup | None = None,
    shrink_flags: int = SHRINK_DEFAULT, pg_options: Any = None,
) -> ProcessGroup:  # fmt: skip
    """A group of the ranks that are not in ``ranks_to_exclude``, which all of them call, and no
    other.

    ``group`` is left: a group that lost a rank cannot be used any more. In place of the default
    group the new one becomes the default: its ranks are numbered anew, and all other groups are
    left, too. Ranks of `simulate` cannot do this, as the error of one ends all of them.

    Arguments:
        ranks_to_exclude: the ranks that are lost, counted in `group`.
        group: the process group; None for the default one.
        shrink_flags: accepted as PyTorch has it; what waits in the old group fails either way.
        pg_options: passed on to backends of users, if registered with ``extended_api``.

    Returns:
        ProcessGroup: the smaller one.

    Raises:
        DistBackendError: one of the others does not come within 30 s. This process stays in its
            groups then; ask ``survivors`` again.

    Example:
        >>> from rushlight import distributed as dist
        >>> def go_on(group=None):  # after a collective raised DistBackendError
        ...     left = dist.survivors(group)
        ...     lost = [r for r in range(dist.get_world_size(group)) if r not in left]
        ...     return dist.shrink_group(lost, group=group)
        >>> def excluded(rank):
        ...     try:
        ...         dist.shrink_group([rank], group=None)
        ...     except RuntimeError as error:
        ...         return str(error)
        >>> dist.simulate(2, excluded)[1]
        'shrink_group: rank 1 is to be excluded, and must not call'
    """
    member = world.member(group, "shrink_group")
    rank = member.group.rank()
    kept = _kept(ranks_to_exclude, member.group.size(), rank)
    if world.hub is not None:
        raise NotImplementedError(
            "shrink_group: the error of a simulated rank ends all of them; try it with processes"
        )
    came = _roll_call("shrink", member, kept, _MEETING)
    if came != kept:  # making the group would wait for them until its timeout
        missing = [r for r in kept if r not in came]
        raise DistBackendError(
            f"shrink_group: ranks {missing} were to go on with the others, and have not come "
            f"within {_MEETING.total_seconds():g} s; survivors() tells who is left"
        )
    if member.group is world.default:
        _shrink_default(member, kept, kept.index(rank), pg_options)
        return world.default
    made = new_group(
        [member.ranks[r] for r in kept], backend=member.backend, pg_options=pg_options,
        use_local_synchronization=True,
    )  # fmt: skip
    destroy_process_group(member.group)
    return made  # type: ignore[return-value]


def _shrink_default(member: Member, kept: list[int], rank: int, pg_options: Any) -> None:
    group = member.group
    backends, index, timeout = group._backends, group._index, group._timeout
    origins = [world.origin_of(r) for r in kept]
    name = "-".join(map(str, origins))
    store = PrefixStore(f"shrunk/{name}", world.store)
    world.leave_groups()
    world.origins = origins
    world.roll_calls.clear()
    world.times += 1
    begin(store, rank, len(kept), timeout, member.backend, backends, index, pg_options)
