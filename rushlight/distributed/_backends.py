"""Backends: who carries the tensors of a process group.

Between CPUs it is MPI, whichever of the names "gloo" and "mpi" is asked for; between GPUs NCCL.
Users register others under names of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight import cuda
from rushlight._C import device as Device
from rushlight.distributed._stores import core
from rushlight.types import Self

_BUILT_IN = ("gloo", "mpi", "nccl")


class _BackendPlugin(NamedTuple):
    creator_fn: Callable[..., Any]
    extended_api: bool


class Backend(str):
    """A string that names who carries the tensors of a process group, in small letters.

    The built-in ones are constants of the class: ``Backend.GLOO`` and ``Backend.MPI`` between CPUs,
    ``Backend.NCCL`` between GPUs. ``register_backend`` adds others.

    Arguments:
        name: the name, in letters of any case.

    Raises:
        ValueError: `name` is no str.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.Backend("NCCL")
        'nccl'
        >>> dist.Backend("Gloo") == dist.Backend.GLOO
        True
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi"]  # noqa: RUF012
    default_device_backend_map = {"cpu": "gloo", "cuda": "nccl"}  # noqa: RUF012 -- as in PyTorch
    backend_capability = {  # noqa: RUF012
        "gloo": ["cpu"],
        "mpi": ["cpu"],
        "nccl": ["cuda"],
    }
    _plugins: dict[str, _BackendPlugin] = {}  # noqa: RUF012 -- by names in capital letters

    def __new__(cls, name: str) -> Self:
        if not isinstance(name, str):
            raise ValueError(f"Backend: the name must be a str, got {name!r}")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False,
        devices: str | list[str] | None = None,
    ) -> None:  # fmt: skip
        """Lets ``init_process_group(name)`` and ``new_group(backend=name)`` use a process group of
        the user's: ``func(store, rank, world_size, timeout)`` makes it, an instance of a subclass
        of ``ProcessGroup``. With ``extended_api`` it is called with an object that has ``store``,
        ``group_rank``, ``group_size``, ``timeout``, ``group_id``, ``global_ranks_in_group``, and
        with ``pg_options``. ``devices`` are the kinds of device it serves.
        """
        small = _checked_name(name)
        if not callable(func):
            raise TypeError(f"register_backend: func must be callable, got {func!r}")
        kinds = [devices] if isinstance(devices, str) else devices
        if kinds is None:
            kinds = ["cpu", "cuda"]
            warnings.warn(
                f'register_backend: "{name}" is taken to serve "cpu" and "cuda"; say which with '
                "devices=",
                stacklevel=2,
            )
        kinds = list(kinds)
        if not kinds or not all(isinstance(kind, str) for kind in kinds):
            raise TypeError(f"register_backend: devices must name kinds of device, got {devices!r}")
        if not hasattr(Backend, small.upper()):
            setattr(Backend, small.upper(), small)
        if small not in Backend.backend_list:
            Backend.backend_list.append(small)
        for kind in kinds:
            Backend.default_device_backend_map.setdefault(kind, small)
        Backend.backend_capability[small] = kinds
        Backend._plugins[small.upper()] = _BackendPlugin(func, extended_api)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"register_backend: the name must be a str, got {name!r}")
    small = name.lower()
    if small in (*_BUILT_IN, "undefined"):
        raise ValueError(f'register_backend: "{small}" is a backend of the library; use another')
    if not small or set(small) & set(":, /"):
        raise ValueError(
            f"register_backend: a name has neither colons, commas, spaces nor slashes, got {name!r}"
        )
    return small


def is_users(name: str) -> bool:
    """Whether a backend was registered by the user."""
    return name.upper() in Backend._plugins


def is_mpi_available() -> bool:
    """Whether an MPI library was found: the wheel `mpich` has one.

    Returns:
        bool: True where processes can work together on CPUs.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.is_mpi_available() in (True, False)
        True
    """
    return core.mpi_available()


def is_gloo_available() -> bool:
    """Whether "gloo" may be asked for: MPI answers to that name.

    Returns:
        bool: the same as `is_mpi_available()`.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.is_gloo_available() == dist.is_mpi_available()
        True
    """
    return is_mpi_available()


def is_nccl_available() -> bool:
    """Whether GPUs of several processes can work together: NCCL was found, and a GPU is here.

    Returns:
        bool: never True where there is no GPU.

    Example:
        >>> from rushlight import distributed as dist
        >>> rl.cuda.is_available() or not dist.is_nccl_available()
        True
    """
    return cuda.is_available() and core.nccl_available()


def is_ucc_available() -> bool:
    """There is no UCC, and no XCCL: says so to programs that ask.

    Returns:
        bool: False.

    Example:
        >>> from rushlight import distributed as dist
        >>> dist.is_ucc_available(), dist.is_xccl_available()
        (False, False)
    """
    return False


is_xccl_available = is_ucc_available


def _served_by(backend: str, name: str) -> list[str]:
    """The kinds of device that a backend serves."""
    if name in _BUILT_IN or is_users(name):
        return Backend.backend_capability[name]
    if name in ("ucc", "xccl"):
        raise NotImplementedError(
            f'init_process_group: the backend "{name}" is not there; use "nccl" for GPUs, "gloo" '
            "for CPUs"
        )
    own = "".join(f', "{plugin.lower()}"' for plugin in Backend._plugins)
    raise ValueError(
        f'init_process_group: unknown backend "{backend}"; there are "gloo", "mpi" and "nccl"{own}'
        "; Backend.register_backend adds others"
    )


def backends_of(backend: str | None) -> dict[str, str]:
    """Backends by kind of device: of a name, or of a map such as "cpu:gloo,cuda:nccl"."""
    name = Backend("undefined" if backend is None else backend)
    if name == "undefined":
        both = {"cpu": "gloo", "cuda": "nccl"}
        return both if is_nccl_available() else {"cpu": "gloo"}
    if ":" not in name:
        return dict.fromkeys(_served_by(name, name), str(name))
    found: dict[str, str] = {}
    for part in name.split(","):
        kind, _, served_by = part.partition(":")
        right = _served_by(name, served_by)
        if kind not in right or kind in found:
            raise ValueError(
                f'init_process_group: "{part}" in "{backend}": "{served_by}" serves '
                f"{' and '.join(right)} tensors, and a kind of device is named once"
            )
        found[kind] = served_by
    return found


def started_backends(backend: str | None) -> tuple[str, dict[str, str]]:
    """The name that get_backend() gives, and the backends by kind of device, which can start. Where
    there is no GPU, a map that has a part for CPUs works with that part."""
    kinds = backends_of(backend)
    if "cuda" in kinds and not cuda.is_available():
        if "cpu" not in kinds:
            raise RuntimeError(
                f'init_process_group: the backend "{backend}" works with GPUs, and there is none '
                f'here; use "gloo" ({cuda.why_unavailable()})'
            )
        del kinds["cuda"]
    if kinds.get("cuda") == "nccl" and not core.nccl_available():
        raise RuntimeError(
            "init_process_group: NCCL (libnccl.so.2) was not found; pip install 'rushlight[cuda]' "
            "brings it"
        )
    asked = "undefined" if backend is None else Backend(backend)
    name = ",".join(f"{k}:{v}" for k, v in kinds.items()) if asked == "undefined" else str(asked)
    return (next(iter(kinds.values())) if len(kinds) == 1 else name), kinds


def gpu_index(device_id: Any, backends: dict[str, str]) -> int | None:
    """The number of the GPU that a call names, or None."""
    if device_id is None:
        return None
    place = Device("cuda", device_id) if isinstance(device_id, int) else Device(device_id)
    if place.type != "cuda":
        return None
    if "cuda" not in backends:
        raise ValueError(
            f"init_process_group: device_id is {place}, and the backends {backends} serve no GPU"
        )
    if place.index is None:
        raise ValueError('init_process_group: device_id needs a number, such as "cuda:0"')
    return place.index
