"""The GPUs of this machine: how many, what they are, which one is meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

from rushlight import _C
from rushlight._C import _cuda
from rushlight.types import Device, Self


class DeferredCudaCallError(Exception):
    """An error in a call that had to wait for CUDA's start."""


def _index(device, optional=True):
    """The number of a device: an int, "cuda:1", a device, or None for the current one."""
    if device is None and optional:
        return current_device()
    if isinstance(device, int):
        return _cuda.check_device(device)
    place = _C.device(device)
    if place.type != "cuda":
        raise ValueError(f"expected a CUDA device, got {place}")
    return current_device() if place.index is None else _cuda.check_device(place.index)


def is_available() -> bool:
    """Can tensors live on a GPU? If not, why_unavailable() says why.

    Example:
        >>> isinstance(rl.cuda.is_available(), bool)
        True
    """
    return _cuda.device_count() > 0


def why_unavailable() -> str | None:
    """What keeps tensors from a GPU and what to do about it; None when nothing does.

    Example:
        >>> (rl.cuda.why_unavailable() is None) == rl.cuda.is_available()
        True
    """
    return None if is_available() else _cuda.why_unavailable()


def device_count() -> int:
    """How many GPUs this process may use.

    Example:
        >>> rl.cuda.device_count() >= 0
        True
    """
    return _cuda.device_count()


def init() -> None:
    """Opens the current GPU. Never needed: the first tensor there does it.

    Raises a DeviceError where there is no GPU.

    Example:
        >>> if rl.cuda.is_available():
        ...     rl.cuda.init()
        >>> rl.cuda.is_initialized() == rl.cuda.is_available()
        True
    """
    _cuda.initialize()


def is_initialized() -> bool:
    """Has this process opened a GPU?

    Example:
        >>> isinstance(rl.cuda.is_initialized(), bool)
        True
    """
    return _cuda.is_initialized()


def current_device() -> int:
    """The number of the GPU that "cuda" means. Raises a DeviceError where there is none.

    Example:
        >>> rl.cuda.current_device() if rl.cuda.is_available() else 0
        0
    """
    _cuda.check_device(-1)
    return _cuda.current_device()


def set_device(device: Device | str | int) -> None:
    """Makes a GPU the one that "cuda" means, for this thread. A negative number is ignored.

    Arguments:
        device: its number, or a device such as "cuda:1".

    Example:
        >>> rl.cuda.set_device(-1)  # changes nothing
        >>> if rl.cuda.is_available():
        ...     rl.cuda.set_device("cuda:0")
        >>> rl.cuda.current_device() if rl.cuda.is_available() else 0
        0
    """
    if not isinstance(device, int) or device >= 0:
        _cuda.set_device(_index(device))


def synchronize(device: Device | str | int | None = None) -> None:
    """Waits until everything queued on the GPU is done.

    Ops on a GPU return before they are computed. A time is right only where this stands before it.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> x = rl.ones(2, device="cuda" if rl.cuda.is_available() else "cpu") * 3
        >>> if x.is_cuda:
        ...     rl.cuda.synchronize(x.device)
        >>> x.tolist()
        [3.0, 3.0]
    """
    _cuda.synchronize(_index(device))


class device:
    """Makes a GPU the current one inside a with block. None or a negative number: no change.

    Arguments:
        device: the GPU's number, or a device such as "cuda:1".

    Example:
        >>> with rl.cuda.device(0 if rl.cuda.is_available() else None):
        ...     x = rl.ones(2, device="cuda" if rl.cuda.is_available() else "cpu")
        >>> x.tolist()
        [1.0, 1.0]
    """

    def __init__(self, device: Any) -> None:
        ignored = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if ignored else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> Self:
        if self.idx >= 0:
            self.prev_idx = current_device()
            _cuda.set_device(self.idx)
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        if self.idx >= 0:
            _cuda.set_device(self.prev_idx)
        return False


class device_of(device):
    """Makes the GPU of a tensor the current one inside a with block.

    Arguments:
        obj: a tensor; for one on the CPU nothing changes.

    Example:
        >>> x = rl.ones(2)
        >>> with rl.cuda.device_of(x):
        ...     x.sum()
        tensor(2.)
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _DeviceProperties(SimpleNamespace):
    def __repr__(self):
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, "
            f"L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


def get_device_properties(device: Device | str | int | None = None) -> _DeviceProperties:
    """Name, compute capability, memory and sizes of a GPU.

    They are attributes of what is returned: `name`, `major`, `minor`, `total_memory` (in bytes),
    `multi_processor_count`, `L2_cache_size` and others.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> gpus = [rl.cuda.get_device_properties(i) for i in range(rl.cuda.device_count())]
        >>> all(gpu.total_memory > 0 for gpu in gpus)
        True
    """
    return _DeviceProperties(**_cuda.properties(_index(device)))


def get_device_name(device: Device | str | int | None = None) -> str:
    """The name of a GPU, such as "NVIDIA H200".

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> names = [rl.cuda.get_device_name(i) for i in range(rl.cuda.device_count())]
        >>> len(names) == rl.cuda.device_count()
        True
    """
    return get_device_properties(device).name


def get_device_capability(device: Device | str | int | None = None) -> tuple[int, int]:
    """The compute capability of a GPU as (major, minor), such as (9, 0).

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> found = [rl.cuda.get_device_capability(i) for i in range(rl.cuda.device_count())]
        >>> all(len(capability) == 2 for capability in found)
        True
    """
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """The architectures that kernels are compiled for: those of the GPUs at hand.

    Example:
        >>> all(name.startswith("sm_") for name in rl.cuda.get_arch_list())
        True
    """
    archs = {get_device_capability(i) for i in range(device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(archs)]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Can the GPU compute in bfloat16? False where there is no GPU.

    Arguments:
        including_emulation: False asks for hardware that does (capability 8.0 and above).

    Example:
        >>> isinstance(rl.cuda.is_bf16_supported(including_emulation=False), bool)
        True
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the GPU computes in TF32 (capability 8.0 and above). False where there is no GPU.

    Example:
        >>> isinstance(rl.cuda.is_tf32_supported(), bool)
        True
    """
    return is_available() and get_device_capability()[0] >= 8


def get_gencode_flags() -> str:
    """Flags of nvcc for the kernels: none, they are compiled when first used.

    Example:
        >>> rl.cuda.get_gencode_flags()
        ''
    """
    return ""


def can_device_access_peer(device: Device | str | int, peer_device: Device | str | int) -> bool:
    """Can a GPU read the memory of another one?

    Arguments:
        device: the one that reads.
        peer_device: the one whose memory it is.

    Example:
        >>> others = range(1, rl.cuda.device_count())
        >>> peers = [i for i in others if rl.cuda.can_device_access_peer(0, i)]
        >>> len(peers) <= len(others)
        True
    """
    return _cuda.can_access_peer(_index(device), _index(peer_device))
