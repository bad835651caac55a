"""What init_rpc is told besides names: threads, timeouts, where workers meet."""

from __future__ import annotations

import enum
from typing import Any

import rushlight as rl
from rushlight.types import Device

__all__ = [
    "DEFAULT_INIT_METHOD",
    "DEFAULT_NUM_WORKER_THREADS",
    "DEFAULT_RPC_TIMEOUT_SEC",
    "UNSET_RPC_TIMEOUT",
    "BackendType",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
]

DEFAULT_RPC_TIMEOUT_SEC = 60.0
UNSET_RPC_TIMEOUT = -1.0
DEFAULT_INIT_METHOD = "env://"
DEFAULT_NUM_WORKER_THREADS = 16


class BackendType(enum.Enum):
    """What carries the calls. The name is PyTorch's; Ray actors serve it."""

    TENSORPIPE = "TENSORPIPE"

    def __repr__(self) -> str:
        return f"BackendType.{self.name}"


class RpcBackendOptions:
    """``rpc_timeout``: seconds until a call fails, 0 for never; ``init_method``: where the workers
    find each other, as in init_process_group."""

    def __init__(
        self, rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC, init_method: str = DEFAULT_INIT_METHOD
    ) -> None:
        if rpc_timeout < 0:
            raise ValueError(f"rpc_timeout: expected seconds, or 0 for no limit, got {rpc_timeout}")
        self.rpc_timeout = rpc_timeout
        self.init_method = init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """``num_worker_threads``: how many calls of others a worker runs at the same time."""

    def __init__(
        self,
        *,
        num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = DEFAULT_INIT_METHOD,
        device_maps: dict[str, dict[Any, Any]] | None = None,
        devices: list[int | str | Device] | None = None,
        _transports: list[str] | None = None,
        _channels: list[str] | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        if num_worker_threads < 1:
            raise ValueError(f"num_worker_threads: at least 1, got {num_worker_threads}")
        self.num_worker_threads = num_worker_threads
        self.device_maps: dict[str, dict[Any, Any]] = {}
        self.devices: list[Any] = []
        for to, mapping in (device_maps or {}).items():
            self.set_device_map(to, mapping)
        self.set_devices(devices or [])

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> None:
        """Maps between CPUs are accepted; tensors of GPUs are not carried yet."""
        self._only_cpu("device_map", [*device_map, *device_map.values()])
        self.device_maps[to] = dict(device_map)

    def set_devices(self, devices: list[int | str | Device]) -> None:
        """The devices of this worker's calls: the CPU."""
        self._only_cpu("devices", devices)
        self.devices = list(devices)

    @staticmethod
    def _only_cpu(what, devices):
        for device in devices:
            if rl.device(device).type != "cpu":
                raise NotImplementedError(
                    f"rpc: {what} names {device!r}, and calls carry CPU tensors only so far; move "
                    "tensors with .cpu() and .to(device) inside the functions that are called"
                )
