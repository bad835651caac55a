"""Process groups: how they begin and end, who belongs to them. docs/distributed.md is the user's
guide, csrc/distributed has the core."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from rushlight.distributed._backends import (
    Backend,
    backends_of,
    gpu_index,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_users,
    is_xccl_available,
    started_backends,
)
from rushlight.distributed._errors import DistArgumentError
from rushlight.distributed._groups import BARRIER, ProcessGroup, Work
from rushlight.distributed._stores import PrefixStore, core
from rushlight.distributed._user_backends import NoEngines, make_user_groups
from rushlight.distributed._world import Member, world
from rushlight.distributed.rendezvous import DEFAULT_TIMEOUT, rendezvous

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "Work",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]

default_pg_timeout = DEFAULT_TIMEOUT


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return world.default

    @WORLD.setter
    def WORLD(cls, group: Any) -> None:
        world.default = group


class group(metaclass=_WorldMeta):
    """``group.WORLD`` is the group of all processes, or None before init_process_group.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.simulate(2, lambda rank: dist.group.WORLD.size())
        [2, 2]
        >>> dist.group.WORLD is None
        True
    """


class GroupMember(metaclass=_WorldMeta):
    """Whether this process belongs to a group: where it does not, new_group gives
    ``GroupMember.NON_GROUP_MEMBER``.

    Example:
        >>> from rushlight import distributed as dist
        >>> def belongs(rank):
        ...     return dist.new_group([0, 2]) != dist.GroupMember.NON_GROUP_MEMBER
        >>> dist.simulate(3, belongs)
        [True, False, True]
    """

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Whether the distributed package is there: programs written for PyTorch ask.

    Returns:
        bool: True.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """Whether there is a process group.

    Returns:
        bool: True from init_process_group to destroy_process_group, and on ranks of `simulate`.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.is_initialized()
        False
        >>> dist.simulate(2, lambda rank: dist.is_initialized())
        [True, True]
    """
    return world.default is not None


def is_torchelastic_launched() -> bool:
    """Whether the launcher started this process.

    Returns:
        bool: whether the environment has TORCHELASTIC_RUN_ID, which the launcher sets.

    Example:
        >>> import os
        >>> from rushlight import distributed as dist
        >>> dist.is_torchelastic_launched() == ("TORCHELASTIC_RUN_ID" in os.environ)
        True
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _checked_timeout(timeout):
    if timeout is None:
        return DEFAULT_TIMEOUT
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"init_process_group: timeout must be a datetime.timedelta, got {timeout!r}"
        )
    return timeout


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Joins this process with the others to the default group, and waits until all have come.

    ``init_method`` says how they find each other: ``env://`` (the default: RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT, as the launcher sets them), ``tcp://host:port`` or
    ``file:///path``; or ``store`` with ``rank`` and ``world_size``. With ``device_id`` the GPUs are
    connected now, and not by the first collective.

    Arguments:
        backend: "gloo" or "mpi" for CPUs, "nccl" for GPUs, a map such as "cpu:gloo,cuda:nccl", or a
            name that was registered; None for all that is there.
        init_method: how the processes find each other; not together with `store`.
        timeout: how long collectives wait for other ranks; None for 30 minutes.
        world_size: the number of processes, where `init_method` does not say it.
        rank: the number of this process, where `init_method` does not say it.
        store: a `Store` that all processes reach, in place of `init_method`.
        group_name: accepted as PyTorch has it; changes nothing.
        pg_options: passed on to backends of users, if registered with ``extended_api``.
        device_id: the GPU of this process.

    Raises:
        ValueError: there is a default group already, or the rank is none of the ranks.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        >>> dist.get_rank(), dist.get_world_size(), dist.get_backend()
        (0, 1, 'gloo')
        >>> dist.destroy_process_group()
    """
    if world.hub is not None:  # a rank of simulate, which belongs to a group from the start
        if any(is_users(name) for name in backends_of(backend).values()):
            raise RuntimeError(
                f"init_process_group: simulated ranks have a default group already; make one of "
                f'"{backend}" with new_group(backend="{backend}")'
            )
        if world.default is None:
            raise RuntimeError(
                "init_process_group: a simulated rank cannot join again once it has left"
            )
        return
    if is_initialized():
        raise ValueError("init_process_group: the default group is there already")
    name, backends = started_backends(backend)
    index = gpu_index(device_id, backends)
    timeout = _checked_timeout(timeout)
    if store is not None and init_method is not None:
        raise ValueError("init_process_group: give an init_method or a store, not both")
    if store is not None:
        if world_size <= 0 or rank < 0:
            raise ValueError("init_process_group: with a store, rank and world_size are needed")
    else:
        method = "env://" if init_method is None else init_method
        store, rank, world_size = next(iter(rendezvous(method, rank, world_size, timeout)))
    if not 0 <= rank < world_size:
        raise ValueError(f"init_process_group: rank must be from 0 to {world_size - 1}, got {rank}")
    # A store may serve several groups, one after the other; all ranks count alike.
    own = PrefixStore(f"default_pg/{world.times}", store)
    world.times += 1
    if world_size > 1 and "cpu" in _built_in(backends):
        core.mpi_initialize(own._core, rank, world_size, timeout)
    begin(own, rank, world_size, timeout, name, backends, index, pg_options)
    world.watch_errors()


def begin(
    store: Any, rank: int, world_size: int, timeout: timedelta, backend: str,
    backends: dict[str, str] | None = None, index: int | None = None, pg_options: Any = None,
) -> None:  # fmt: skip
    """Makes the default group; the engine between CPUs is ready. ``index``: the GPU, if known."""
    world.count = 0
    ranks = list(range(world_size))
    kinds = {"cpu": backend} if backends is None else backends
    made = _make_group(
        store, ranks, rank, timeout, "group/0", "the default group", kinds, index, pg_options
    )
    world.count = 1
    world.default, world.store = made, store
    world.add(made, ranks, backend)


def _built_in(backends: dict[str, str]) -> dict[str, str]:
    return {kind: name for kind, name in backends.items() if not is_users(name)}


def _make_group(store, ranks, rank, timeout, place, name, backends, index, pg_options):
    """``place``: a name that no other group of the store has."""
    part = PrefixStore(place, store)
    own = _built_in(backends)
    chosen = {kind: user for kind, user in backends.items() if kind not in own}
    users = make_user_groups(chosen, part, ranks, rank, timeout, place, pg_options)
    made: Any = NoEngines(name)
    if own:
        made = core.make_group(
            part._core, [world.origin_of(r) for r in ranks], ranks.index(rank), name, timeout,
            world.hub, f"{world.times}/{place}", "cpu" in own, "cuda" in own,
        )  # fmt: skip
    engine = "threads" if world.hub is not None else "mpi" if "cpu" in own else "nccl"
    if len(set(backends.values())) == 1 and users:  # the user's object is the group
        group, engine = next(iter(users.values())), next(iter(chosen.values()))
    else:
        group = ProcessGroup(ranks.index(rank), len(ranks))
    for user, served_by in zip(users.values(), chosen.values(), strict=True):
        user._begin(made, served_by, chosen, index, users)
    group._begin(made, engine, backends, index, users)
    group._timeout = timeout
    if index is not None and "cuda" in own:
        made._connect(index)
    return group


def _meet(default: Member, place: str) -> None:
    """Waits until all ranks of the default group have come."""
    group = default.group
    if not group._users:
        core_group, here = group._core, group._gpu()
        core_group._collective(BARRIER, None, None, 0, 0, 0, [], [], None, False, here)
        return
    # A user's group need have no barrier: the ranks meet in the store.
    store, size = PrefixStore(f"meet/{place}", world.store), group.size()
    if store.add("came", 1) == size:
        store.set("all", "1")
    store.wait(["all"])


def new_group(
    ranks: list[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
    pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None, device_id: Any = None, sort_ranks: bool = True,
) -> ProcessGroup | int:  # fmt: skip
    """A group of some of the ranks. All ranks of the default group must call this, in the same
    order; those that do not belong to it get ``GroupMember.NON_GROUP_MEMBER``.

    Arguments:
        ranks: those that belong to it, counted in the default group; None for all.
        timeout: how long its collectives wait for other ranks; None for 30 minutes.
        backend: as in `init_process_group`; None for that of the default group.
        pg_options: passed on to backends of users, if registered with ``extended_api``.
        use_local_synchronization: only ranks that belong to the group call, and all of them do.
        group_desc: accepted as PyTorch has it; changes nothing.
        device_id: the GPU of this process; None for that of the default group.
        sort_ranks: number the ranks in ascending order, and not as `ranks` has them.

    Returns:
        ProcessGroup, or ``GroupMember.NON_GROUP_MEMBER``.

    Example:
        >>> from rushlight import distributed as dist
        >>> def places(rank):
        ...     backwards = dist.new_group([2, 0], sort_ranks=False)
        ...     return dist.get_rank(backwards)
        >>> dist.simulate(3, places)
        [1, -1, 0]
    """
    default = world.member(None, "new_group")
    size = default.group.size()
    ranks = list(range(size) if ranks is None else ranks)
    if sort_ranks:
        ranks.sort()
    if len(set(ranks)) != len(ranks) or not ranks or min(ranks) < 0 or max(ranks) >= size:
        raise ValueError(
            f"new_group: the ranks must be different, and from 0 to {size - 1}, got {ranks}"
        )
    name, backends = default.backend, default.group._backends
    if backend is not None:
        name, backends = started_backends(backend)
    if (
        "cpu" in _built_in(backends)
        and "cpu" not in _built_in(default.group._backends)
        and world.hub is None
        and size > 1
    ):
        core.mpi_initialize(
            world.store._core, default.group.rank(), size, _checked_timeout(timeout)
        )
    rank = default.group.rank()
    if use_local_synchronization:
        key = tuple(ranks)
        turn = world.local_counts[key] = world.local_counts.get(key, 0) + 1
        place = f"group/of/{'-'.join(map(str, ranks))}/{turn}"
        shown = f"group {turn} of ranks {ranks}"
    else:
        place, shown = f"group/{world.count}", f"group {world.count}"
        world.count += 1
        # Making a group waits for its ranks; one that does not come is found out here.
        _meet(default, place)
    if rank not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    index = gpu_index(device_id, backends)
    if index is None and "cuda" in backends:
        index = default.group._index
    limit = _checked_timeout(timeout)
    made = _make_group(world.store, ranks, rank, limit, place, shown, backends, index, pg_options)
    world.add(made, ranks, name)
    return made


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]], timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """A group per list of ranks, which share none: the one this process belongs to (None where it
    belongs to none), and all of them.

    Arguments:
        ranks_per_subgroup_list: a list of ranks for each group, counted in the default group.
        timeout: how long collectives wait for other ranks; None for 30 minutes.
        backend: as in `init_process_group`; None for that of the default group.
        pg_options, group_desc: accepted as PyTorch has them; change nothing.

    Returns:
        tuple: the group of this process, and the list of all, with
        ``GroupMember.NON_GROUP_MEMBER`` for those that it is not in.

    Example:
        >>> from rushlight import distributed as dist
        >>> def mates(rank):
        ...     mine, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]], backend="gloo")
        ...     return dist.get_process_group_ranks(mine)
        >>> dist.simulate(4, mates)
        [[0, 2], [1, 3], [0, 2], [1, 3]]
    """
    if not ranks_per_subgroup_list:
        raise ValueError("new_subgroups_by_enumeration: there are no ranks in the list")
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        if seen & set(ranks):
            raise ValueError(
                f"new_subgroups_by_enumeration: rank {min(seen & set(ranks))} is in two subgroups"
            )
        seen |= set(ranks)
    groups = [new_group(ranks, timeout, backend) for ranks in ranks_per_subgroup_list]
    mine = [g for g in groups if not _is_outside(g)]
    return (mine[0] if mine else None), groups


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The ranks in groups of ``group_size`` neighbours: the one of this process, and all.

    Arguments:
        group_size: how many ranks each has, which must divide the number of ranks; None for what
            the environment variable LOCAL_WORLD_SIZE says, or else for all.
        group, pg_options, group_desc: accepted as PyTorch has them; change nothing.
        timeout: how long collectives wait for other ranks; None for 30 minutes.
        backend: as in `init_process_group`; None for that of the default group.

    Returns:
        tuple: the group of this process, and the list of all, with
        ``GroupMember.NON_GROUP_MEMBER`` for those that it is not in.

    Example:
        >>> from rushlight import distributed as dist
        >>> def mates(rank):
        ...     mine, every = dist.new_subgroups(group_size=2)
        ...     return dist.get_process_group_ranks(mine), len(every)
        >>> dist.simulate(4, mates)
        [([0, 1], 2), ([0, 1], 2), ([2, 3], 2), ([2, 3], 2)]
    """
    size = world.member(None, "new_subgroups").group.size()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size or size % group_size != 0:
        raise ValueError(f"The world size ({size}) must be divisible by group_size={group_size}")
    starts = range(0, size, group_size)
    lists = [list(range(first, first + group_size)) for first in starts]
    return new_subgroups_by_enumeration(lists, timeout, backend)


def split_group(
    parent_pg: Any = None, split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None, pg_options: Any = None, group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:  # fmt: skip
    """Cuts a group into parts; ``split_ranks`` counts in the group. Returns the part of this
    process, or None where it is in none.

    Arguments:
        parent_pg: the group that is cut; None for the default one.
        split_ranks: a list of ranks for each part.
        timeout: how long collectives of a part wait for other ranks; None for 30 minutes.
        pg_options, group_desc: accepted as PyTorch has them; change nothing.
        backend: as in `init_process_group`; None for that of the default group.

    Returns:
        ProcessGroup, or None.

    Example:
        >>> from rushlight import distributed as dist
        >>> def part(rank):
        ...     mine = dist.split_group(split_ranks=[[0, 3], [1]])
        ...     return None if mine is None else dist.get_process_group_ranks(mine)
        >>> dist.simulate(4, part)
        [[0, 3], [1], None, [0, 3]]
    """
    member = world.member(parent_pg, "split_group")
    if not split_ranks:
        raise ValueError("split_group: split_ranks names no ranks")
    for part in split_ranks:
        if not part:
            raise ValueError("split_group: a part has no ranks")
        if len(set(part)) != len(part):
            raise ValueError(f"split_group: a rank is twice in {part}")
        if min(part) < 0 or max(part) >= len(member.ranks):
            raise ValueError(f"split_group: ranks {part} are not all in {member.group}")
    mine = [part for part in split_ranks if member.group.rank() in part]
    if not mine:
        return None
    ranks = [member.ranks[r] for r in sorted(mine[0])]
    return new_group(ranks, timeout, backend, use_local_synchronization=True)  # type: ignore[return-value]


def destroy_process_group(group: Any = None) -> None:
    """Leaves a group, or all of them. What still waits in it fails.

    Arguments:
        group: the group to leave; None, or the default group, for all groups.

    Example:
        >>> from rushlight import distributed as dist
        >>> def leave(rank):
        ...     pair = dist.new_group([0, 1])
        ...     before = dist.get_pg_count()
        ...     dist.barrier()
        ...     dist.destroy_process_group(group=pair)
        ...     return before, dist.get_pg_count()
        >>> dist.simulate(2, leave)
        [(2, 1), (2, 1)]
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    member = world.member(group, "destroy_process_group")
    if member.group is world.default:
        world.shut_down()
        return
    member.group._shut_down()
    del world.members[member.group.group_name]


def _is_outside(group):
    return isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER


def get_rank(group: Any = None) -> int:
    """The number of this process in a group, or -1 outside of it.

    Arguments:
        group: the process group; None for the default one.

    Returns:
        int: from 0.

    Example:
        >>> from rushlight import distributed as dist
        >>> def numbers(rank):
        ...     later = dist.new_group([1, 2])
        ...     return dist.get_rank(), dist.get_rank(group=later)
        >>> dist.simulate(3, numbers)
        [(0, -1), (1, 0), (2, 1)]
    """
    return -1 if _is_outside(group) else world.member(group, "get_rank").group.rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group, or -1 outside of it.

    Arguments:
        group: the process group; None for the default one.

    Returns:
        int: how many ranks there are.

    Example:
        >>> from rushlight import distributed as dist
        >>> def sizes(rank):
        ...     later = dist.new_group([1, 2])
        ...     return dist.get_world_size(), dist.get_world_size(group=later)
        >>> dist.simulate(3, sizes)
        [(3, -1), (3, 2), (3, 2)]
    """
    return -1 if _is_outside(group) else world.member(group, "get_world_size").group.size()


def get_backend(group: Any = None) -> str:
    """The name of the backend that was asked for.

    Arguments:
        group: the process group; None for the default one.

    Returns:
        str: such as "gloo"; where devices have different backends, the map.

    Raises:
        ValueError: this process does not belong to the group.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.simulate(2, lambda rank: dist.get_backend(group=dist.group.WORLD))
        ['gloo', 'gloo']
    """
    if _is_outside(group):
        raise ValueError("Invalid process group specified: this process does not belong to it")
    return world.member(group, "get_backend").backend


def get_backend_config(group: Any = None) -> str:
    """The backends of a group by kind of device.

    Arguments:
        group: the process group; None for the default one.

    Returns:
        str: such as "cpu:gloo,cuda:nccl".

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.simulate(1, lambda rank: dist.get_backend_config(group=None))
        ['cpu:gloo']
    """
    kinds = world.member(group, "get_backend_config").group._backends
    return ",".join(f"{kind}:{name}" for kind, name in kinds.items())


def get_default_backend_for_device(device: Any) -> str:
    """The backend that tensors on a device use: "cpu" has "gloo".

    Arguments:
        device: a device, or its name; a number behind it means nothing.

    Returns:
        str: the name of the backend.

    Raises:
        ValueError: no backend serves such devices.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.get_default_backend_for_device("cuda:1")
        'nccl'
        >>> dist.get_default_backend_for_device(rl.device("cpu"))
        'gloo'
    """
    kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"get_default_backend_for_device: no backend serves {device}")
    return Backend.default_device_backend_map[kind]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, as the launcher said it.

    Arguments:
        fallback_rank: the answer where the environment has no LOCAL_RANK.

    Returns:
        int: from 0.

    Raises:
        RuntimeError: there is neither LOCAL_RANK nor `fallback_rank`.

    Example:
        >>> import os
        >>> from rushlight import distributed as dist
        >>> told = int(os.environ.get("LOCAL_RANK", 0))
        >>> dist.get_node_local_rank(fallback_rank=0) == told
        True
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "get_node_local_rank: LOCAL_RANK is not in the environment; start the processes with "
        "`python -m rushlight.distributed.run`, or pass fallback_rank"
    )


def get_pg_count() -> int:
    """How many groups this process belongs to.

    Returns:
        int: with the default group.

    Example:
        >>> from rushlight import distributed as dist
        >>> def count(rank):
        ...     dist.new_group([0, 1])
        ...     return dist.get_pg_count()
        >>> dist.simulate(3, count)
        [2, 2, 1]
    """
    return len(world.members)


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of the default group that belong to a group.

    Arguments:
        group: the process group; None for the default one.

    Returns:
        list of int: in the order of the group's own ranks.

    Example:
        >>> from rushlight import distributed as dist
        >>> def ranks(rank):
        ...     pair = dist.new_group([1, 2])
        ...     return dist.get_process_group_ranks(pair) if rank > 0 else None
        >>> dist.simulate(3, ranks)
        [None, [1, 2], [1, 2]]
    """
    return list(world.member(group, "get_process_group_ranks").ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the default group of a rank in a group.

    Arguments:
        group: the process group; None for the default one.
        group_rank: a rank, counted in `group`.

    Returns:
        int: the same rank, counted in the default group.

    Example:
        >>> from rushlight import distributed as dist
        >>> def where(rank):
        ...     pair = dist.new_group([1, 2])
        ...     return dist.get_global_rank(pair, 0) if rank > 0 else None
        >>> dist.simulate(3, where)
        [None, 1, 1]
    """
    ranks = world.member(group, "get_global_rank").ranks
    if not 0 <= group_rank < len(ranks):
        raise DistArgumentError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank in the default group.

    Arguments:
        group: the process group; None for the default one.
        global_rank: a rank, counted in the default group.

    Returns:
        int: the same rank, counted in `group`.

    Example:
        >>> from rushlight import distributed as dist
        >>> def where(rank):
        ...     pair = dist.new_group([1, 2])
        ...     return dist.get_group_rank(pair, 2) if rank > 0 else None
        >>> dist.simulate(3, where)
        [None, 1, 1]
    """
    return _rank_in(world.member(group, "get_group_rank"), global_rank)


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """The timeout of later collectives of a group."""
    found, limit = world.member(group, "_set_pg_timeout").group, _checked_timeout(timeout)
    found._core._set_timeout(limit)
    found._timeout = limit
    for user in found._users.values():
        if hasattr(user, "set_timeout"):
            user.set_timeout(limit)


def _rank_in(member: Member, global_rank: int) -> int:
    if global_rank not in member.ranks:
        raise DistArgumentError(f"Global rank {global_rank} is not part of group {member.group}")
    return member.ranks.index(global_rank)
