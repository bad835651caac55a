"""Backends: who carries the tensors of a process group.

Between CPUs it is MPI, whichever of the names "gloo" and "mpi" is asked for; between GPUs NCCL.
"""

from __future__ import annotations

from typing import Any

from rushlight import cuda
from rushlight._C import device as Device
from rushlight.distributed._stores import core
from rushlight.types import Self


class Backend(str):
    """The name of a backend."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = ("undefined", "gloo", "nccl", "xccl", "ucc", "mpi")
    default_device_backend_map = {"cpu": "gloo", "cuda": "nccl"}  # noqa: RUF012 -- as in PyTorch

    def __new__(cls, name: str) -> Self:
        if not isinstance(name, str):
            raise ValueError(f"Backend: the name must be a str, got {name!r}")
        return super().__new__(cls, name.lower())


def is_mpi_available() -> bool:
    """Whether an MPI library was found: the wheel `mpich` has one."""
    return core.mpi_available()


def is_gloo_available() -> bool:
    """Whether "gloo" may be asked for: MPI answers to that name."""
    return is_mpi_available()


def is_nccl_available() -> bool:
    """Whether GPUs of several processes can work together: NCCL was found, and a GPU is here."""
    return cuda.is_available() and core.nccl_available()


def is_ucc_available() -> bool:
    """There is no UCC."""
    return False


is_xccl_available = is_ucc_available


def _named(backend: str, name: str) -> tuple[str, str]:
    """The kind of device that a backend serves, and its name."""
    if name in ("gloo", "mpi"):
        return "cpu", name
    if name == "nccl":
        return "cuda", name
    if name in ("ucc", "xccl"):
        raise NotImplementedError(
            f'init_process_group: the backend "{name}" is not there; use "nccl" for GPUs, "gloo" '
            "for CPUs"
        )
    raise ValueError(
        f'init_process_group: unknown backend "{backend}"; there are "gloo", "mpi" and "nccl"'
    )


def backends_of(backend: str | None) -> dict[str, str]:
    """Backends by kind of device: of a name, or of a map such as "cpu:gloo,cuda:nccl"."""
    name = Backend("undefined" if backend is None else backend)
    if name == "undefined":
        both = {"cpu": "gloo", "cuda": "nccl"}
        return both if is_nccl_available() else {"cpu": "gloo"}
    if ":" not in name:
        kind, served_by = _named(name, name)
        return {kind: served_by}
    found: dict[str, str] = {}
    for part in name.split(","):
        kind, _, served_by = part.partition(":")
        right, _ = _named(name, served_by)
        if kind != right or kind in found:
            raise ValueError(
                f'init_process_group: "{part}" in "{backend}": "{served_by}" serves {right} '
                "tensors, and a kind of device is named once"
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
    if "cuda" in kinds and not core.nccl_available():
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
