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
    """``group.WORLD`` is the group of all processes."""


class GroupMember(metaclass=_WorldMeta):
    """Whether this process belongs to a group."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Whether the distributed package is there."""
    return True


def is_initialized() -> bool:
    """Whether there is a process group."""
    return world.default is not None


def is_torchelastic_launched() -> bool:
    """Whether the launcher started this process."""
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
    order; those that do not belong to it get ``GroupMember.NON_GROUP_MEMBER``. With
    ``use_local_synchronization``, only those that belong to it may call, and do."""
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
    belongs to none), and all of them."""
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
    """The ranks in groups of ``group_size`` neighbours: the one of this process, and all."""
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
    process, or None where it is in none."""
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
    """Leaves a group, or all of them. What still waits in it fails."""
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
    """The number of this process in a group, or -1 outside of it."""
    return -1 if _is_outside(group) else world.member(group, "get_rank").group.rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group, or -1 outside of it."""
    return -1 if _is_outside(group) else world.member(group, "get_world_size").group.size()


def get_backend(group: Any = None) -> str:
    """The name of the backend that was asked for."""
    if _is_outside(group):
        raise ValueError("Invalid process group specified: this process does not belong to it")
    return world.member(group, "get_backend").backend


def get_backend_config(group: Any = None) -> str:
    """The backends of a group by kind of device."""
    kinds = world.member(group, "get_backend_config").group._backends
    return ",".join(f"{kind}:{name}" for kind, name in kinds.items())


def get_default_backend_for_device(device: Any) -> str:
    """The backend that tensors on a device use: "cpu" has "gloo"."""
    kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"get_default_backend_for_device: no backend serves {device}")
    return Backend.default_device_backend_map[kind]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, as the launcher said it."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "get_node_local_rank: LOCAL_RANK is not in the environment; start the processes with "
        "`python -m rushlight.distributed.run`, or pass fallback_rank"
    )


def get_pg_count() -> int:
    """How many groups this process belongs to."""
    return len(world.members)


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of the default group that belong to a group."""
    return list(world.member(group, "get_process_group_ranks").ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the default group of a rank in a group."""
    ranks = world.member(group, "get_global_rank").ranks
    if not 0 <= group_rank < len(ranks):
        raise DistArgumentError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank in the default group."""
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
