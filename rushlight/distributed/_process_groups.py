"""Process groups and their collectives.

Between CPUs, MPI carries the tensors; `gloo` and `mpi` both name it. docs/distributed.md is the
user's guide, csrc/distributed has the core.
"""

from __future__ import annotations

import enum
import warnings
from datetime import timedelta
from typing import Any

import rushlight
from rushlight._C import Tensor
from rushlight.distributed._groups import ProcessGroup, Work
from rushlight.distributed._stores import PrefixStore, core
from rushlight.distributed._world import Member, world
from rushlight.distributed.rendezvous import DEFAULT_TIMEOUT, rendezvous
from rushlight.types import Self

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
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
    "monitored_barrier",
    "new_group",
    "reduce_op",
]

default_pg_timeout = DEFAULT_TIMEOUT

# The core's numbers of the collectives (csrc/distributed/operation.h).
_ALL_REDUCE, _BROADCAST, _ALL_GATHER, _BARRIER = range(4)


class ReduceOp(enum.Enum):
    """How tensors of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Backend(str):
    """The name of a backend."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = ("undefined", "gloo", "nccl", "xccl", "ucc", "mpi")
    default_device_backend_map = {"cpu": "gloo", "cuda": "nccl"}  # noqa: RUF012 -- as in PyTorch

    def __new__(cls, name: str) -> Self:
        if not isinstance(name, str):
            raise ValueError(f"Backend: the name must be a str, got {name!r}")
        return super().__new__(cls, name.lower())


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


def is_mpi_available() -> bool:
    """Whether an MPI library was found: the wheel `mpich` has one."""
    return core.mpi_available()


def is_gloo_available() -> bool:
    """Whether "gloo" may be asked for: MPI answers to that name."""
    return is_mpi_available()


def is_nccl_available() -> bool:
    """Whether GPUs of several processes can work together: not yet."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether the launcher started this process."""
    import os

    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _checked_backend(backend):
    """The backend for CPU tensors, of a name or a map such as "cpu:gloo,cuda:nccl"."""
    if backend is None:
        return "gloo"
    name = Backend(backend)
    if ":" in name:
        parts = dict(part.split(":", 1) for part in name.split(","))
        if "cpu" not in parts:
            raise NotImplementedError(
                f"init_process_group: {backend!r} names no backend for the CPU, and process groups "
                "work with CPU tensors only so far"
            )
        name = parts["cpu"]
    if name == "undefined":
        return "gloo"
    if name in ("nccl", "ucc", "xccl"):
        raise NotImplementedError(
            f'init_process_group: the backend "{name}" is not there yet: process groups work with '
            'CPU tensors only so far; use backend="gloo"'
        )
    if name not in ("gloo", "mpi"):
        raise ValueError(f'init_process_group: unknown backend "{backend}"; there is "gloo"')
    return str(name)


def _checked_timeout(timeout):
    if timeout is None:
        return DEFAULT_TIMEOUT
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"init_process_group: timeout must be a datetime.timedelta, got {timeout!r}"
        )
    return timeout


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Joins this process with the others to the default group, and waits until all have come.

    ``init_method`` says how they find each other: ``env://`` (the default: RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT, as the launcher sets them), ``tcp://host:port`` or
    ``file:///path``; or ``store`` with ``rank`` and ``world_size``.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    name = _checked_backend(backend)
    timeout = _checked_timeout(timeout)
    if store is not None and init_method is not None:
        raise ValueError("init_process_group: Cannot specify both init_method and store.")
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
    if world_size > 1:
        core.mpi_initialize(own._core, rank, world_size, timeout)
    world.count = 0
    made = _make_group(own, list(range(world_size)), rank, timeout)
    world.default, world.store = made, own
    world.add(made, list(range(world_size)), name)
    world.watch_errors()


def _make_group(store, ranks, rank, timeout):
    name = "the default group" if world.count == 0 else f"group {world.count}"
    part = PrefixStore(f"group/{world.count}", store)
    world.count += 1
    return ProcessGroup(core.make_group(part._core, ranks, ranks.index(rank), name, timeout))


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> ProcessGroup | int:
    """A group of some of the ranks. All ranks of the default group must call this, in the same
    order; those that do not belong to it get ``GroupMember.NON_GROUP_MEMBER``."""
    default = world.member(None, "new_group")
    size = default.group.size()
    ranks = sorted(range(size) if ranks is None else ranks)
    if len(set(ranks)) != len(ranks) or not ranks or ranks[0] < 0 or ranks[-1] >= size:
        raise ValueError(
            f"new_group: the ranks must be different, and from 0 to {size - 1}, got {ranks}"
        )
    name = default.backend if backend is None else _checked_backend(backend)
    rank = default.group.rank()
    if rank not in ranks:
        world.count += 1
        return GroupMember.NON_GROUP_MEMBER
    made = _make_group(world.store, ranks, rank, _checked_timeout(timeout))
    world.add(made, ranks, name)
    return made


def destroy_process_group(group: Any = None) -> None:
    """Leaves a group, or all of them. What still waits in it fails."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    member = world.member(group, "destroy_process_group")
    if member.group is world.default:
        world.shut_down()
        return
    member.group._core._shut_down()
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


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of the default group that belong to a group."""
    return list(world.member(group, "get_process_group_ranks").ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the default group of a rank in a group."""
    ranks = world.member(group, "get_global_rank").ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank in the default group."""
    return _rank_in(world.member(group, "get_group_rank"), global_rank)


def _rank_in(member: Member, global_rank: int) -> int:
    if global_rank not in member.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {member.group}")
    return member.ranks.index(global_rank)


def _run(what, group, async_op, kind, tensor=None, reduce=0, root=0, outputs=None, timeout=None):
    """One collective: the Work with async_op, else nothing once it is done."""
    if _is_outside(group):
        warnings.warn(
            f"Running {what} on a group that this process does not belong to", stacklevel=3
        )
        return None
    target = world.member(group, what).group
    return target._collective(kind, tensor, reduce, root, outputs, timeout, async_op)


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Puts the sum (or mean, product, ...) of all ranks' tensors into the tensor of each."""
    if op is ReduceOp.PREMUL_SUM:
        raise NotImplementedError("all_reduce: PREMUL_SUM needs NCCL, which is not there yet")
    return _run("all_reduce", group, async_op, _ALL_REDUCE, tensor, ReduceOp(op).value)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copies the tensor of one rank to all. ``src`` counts in the default group, ``group_src`` in
    ``group``."""
    if (src is None) == (group_src is None):
        raise ValueError("broadcast: one of src and group_src must be given")
    if _is_outside(group):
        return _run("broadcast", group, async_op, _BROADCAST)
    if group_src is None:
        assert src is not None
        group_src = _rank_in(world.member(group, "broadcast"), src)
    return _run("broadcast", group, async_op, _BROADCAST, tensor, root=group_src)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the tensor of each rank into the list of all ranks."""
    if not _is_outside(group):
        size = get_world_size(group)
        if len(tensor_list) != size:
            raise ValueError(
                f"all_gather: the list must hold one tensor per rank, {size}, got "
                f"{len(tensor_list)}"
            )
        for other in tensor_list:
            if other.shape != tensor.shape:
                raise rushlight.ShapeError(
                    f"all_gather: the tensors must have one shape, got {list(tensor.shape)} and "
                    f"{list(other.shape)}"
                )
    return _run("all_gather", group, async_op, _ALL_GATHER, tensor, outputs=list(tensor_list))


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the tensors of all ranks into one tensor, one behind the other."""
    return _run(
        "all_gather_into_tensor", group, async_op, _ALL_GATHER, input_tensor,
        outputs=[output_tensor],
    )  # fmt: skip


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits until all ranks have come here."""
    return _run("barrier", group, async_op, _BARRIER)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier with a timeout of its own; its error names the ranks that have not come."""
    _run("monitored_barrier", group, False, _BARRIER, timeout=timeout)
