"""Batch normalisation over the batches of all processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.nn.modules._homes import live_in
from rushlight.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm
from rushlight.types import Device, _dtype

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of any number of dims. There is one process, so its batch is the whole batch."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True,
                 process_group: Any | None = None, device: Device = None,
                 dtype: _dtype | None = None, *, bias: bool = True) -> None:  # fmt: skip
        if process_group is not None:
            raise NotImplementedError(
                "SyncBatchNorm: process groups are not there yet; leave process_group at None"
            )
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input, got shape {list(input.shape)}")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with each BatchNorm in it replaced by a SyncBatchNorm of the same state."""
        result = module
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d)):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(result, name, getattr(module, name))
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


live_in("batchnorm", SyncBatchNorm)
