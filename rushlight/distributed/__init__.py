"""torch.distributed's names. Training runs in one process: is_available() is False, and so is
is_initialized(), which is what programs ask before they go on without. Everything that needs other
processes raises, and says so."""

from __future__ import annotations

import enum
from typing import Any, NoReturn

from rushlight._names.absent import REASONS
from rushlight._names.missing import fill
from rushlight.types import Self

__all__ = [
    "Backend",
    "GroupMember",
    "ReduceOp",
    "get_backend",
    "get_rank",
    "get_world_size",
    "group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "reduce_op",
]

WHY = REASONS["one process"][0]


class DistError(RuntimeError):
    """An error of the distributed package."""


class DistBackendError(DistError):
    """An error of a backend."""


class DistNetworkError(DistError):
    """An error of the network."""


class DistStoreError(DistError):
    """An error of a store."""


class DistNotInitializedError(ValueError, RuntimeError):
    """A question that needs a process group."""


def is_available() -> bool:
    """Whether processes can train together: not yet."""
    return False


def is_initialized() -> bool:
    """Whether there is a process group."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_available
is_ucc_available = is_xccl_available = is_torchelastic_launched = is_available


def _no_group(what: str) -> NoReturn:
    raise DistNotInitializedError(
        f"distributed.{what}: there is no process group ({WHY}); guard the call with "
        "distributed.is_available() and distributed.is_initialized()"
    )


def get_rank(group: Any = None) -> int:
    """The number of this process; there is no group to count in."""
    _no_group("get_rank")


def get_world_size(group: Any = None) -> int:
    """The number of processes; there is no group to count."""
    _no_group("get_world_size")


def get_backend(group: Any = None) -> str:
    """The name of the backend; there is none."""
    _no_group("get_backend")


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> None:
    """Waits for the other processes."""
    _no_group("barrier")


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


class GroupMember:
    """Whether this process belongs to a group."""

    WORLD = None
    NON_GROUP_MEMBER = -100


class group:
    """The group of all processes; there is none."""

    WORLD = None


fill(globals())
