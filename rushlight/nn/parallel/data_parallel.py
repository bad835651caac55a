"""DataParallel: each batch cut into pieces for the GPUs of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from rushlight._C import Tensor
from rushlight._utils import _as_device
from rushlight.nn.modules import Module
from rushlight.nn.parallel.parallel_apply import parallel_apply
from rushlight.nn.parallel.replicate import replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter_kwargs
from rushlight.types import Device

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

    _M = TypeVar("_M", bound=Module)

__all__ = ["DataParallel", "data_parallel"]


def _gpus(device_ids):
    """The devices that are meant: all of them by default, none on a machine without."""
    from rushlight import cuda

    if not cuda.is_available():
        return []
    ids = range(cuda.device_count()) if device_ids is None else device_ids
    devices = [_as_device(d) for d in ids]
    for device in devices:
        cuda.get_device_properties(device)  # raises where there is no such device
    return devices


def _check_places(module, device):
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != device:
            raise RuntimeError(
                f"DataParallel: the module must have its parameters and buffers on {device}, the "
                f"first of its devices, but one of them is on {tensor.device}; call "
                f"module.to({str(device)!r}) before"
            )


class DataParallel(Module):
    """Cuts each batch along ``dim`` for several GPUs, has a copy of the module compute each piece
    in a thread of its own, and joins the results on ``output_device``. The module itself, which
    gets all gradients, lives on the first of ``device_ids`` (by default all GPUs) and is
    `.module`.

    On a machine without a GPU it calls the module. DistributedDataParallel, a process for each
    device, is what PyTorch recommends for speed.

    Arguments:
        module: the module.
        device_ids: the GPUs; None is all.
        output_device: where results are gathered; None is the first.
        dim: the dim of the batch.

    Example:
        >>> nn.DataParallel(nn.Linear(3, 2), dim=0)(rl.zeros(4, 3)).shape
        rushlight.Size([4, 2])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | Device] | None = None,
        output_device: int | Device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        devices = _gpus(device_ids)
        self.device_ids = [d.index for d in devices]
        self.output_device = None
        if not devices:
            return
        self.src_device_obj = devices[0]
        chosen = devices[0] if output_device is None else _as_device(output_device)
        self.output_device = chosen.index
        if len(devices) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_places(self.module, self.src_device_obj)
        inputs, kwargs = self.scatter(inputs, kwargs, self.device_ids)
        if not inputs and not kwargs:  # called without anything to cut
            inputs, kwargs = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*inputs[0], **kwargs[0])
        replicas = self.replicate(self.module, self.device_ids[: len(inputs)])
        return self.gather(self.parallel_apply(replicas, inputs, kwargs), self.output_device)

    def replicate(self, module: _M, device_ids: Sequence[int | Device]) -> list[_M]:
        """The module once for each device."""
        from rushlight import is_grad_enabled

        return replicate(module, device_ids, not is_grad_enabled())

    def scatter(
        self,
        inputs: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        device_ids: Sequence[int | Device],
    ) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
        """Arguments, cut for the devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(
        self, replicas: Sequence[_M], inputs: Sequence[Any], kwargs: Any
    ) -> list[Any]:
        """What the copies make of their pieces."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: int | Device) -> Any:
        """Results, joined on one device."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | Device] | None = None,
    output_device: int | Device | None = None,
    dim: int = 0,
    module_kwargs: Any | None = None,
) -> Tensor:
    """module(*inputs), with the batch cut for several GPUs: DataParallel as a function."""
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    parallel = DataParallel(module, device_ids, output_device, dim)
    return parallel(*inputs, **(module_kwargs or {}))
