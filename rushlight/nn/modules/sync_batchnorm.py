"""Batch normalisation over the batches of all processes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rushlight._C import Tensor
from rushlight.nn.modules._homes import live_in
from rushlight.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm
from rushlight.types import Device, _dtype

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of any number of dims, in training by the mean and variance of the batches of all
    processes of a group (None: the default one). Without a group, the batch of this process.

    Arguments:
        num_features: C.
        eps: added to the variance.
        momentum: how much of a batch's moments goes into the running ones.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        track_running_stats: keep running moments.
        process_group: the processes that share their moments; None is all.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        >>> nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
        SyncBatchNorm(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        >>> nn.SyncBatchNorm(8, affine=False).weight is None
        True
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True,
                 process_group: Any | None = None, device: Device = None,
                 dtype: _dtype | None = None, *, bias: bool = True) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        distributed = sys.modules.get("rushlight.distributed")
        alone = distributed is None or not distributed.is_initialized()
        if alone or not (self.training or self.running_mean is None):
            return super().forward(input)
        assert distributed is not None
        group = self.process_group or distributed.group.WORLD
        if group.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        from rushlight.nn.modules._sync_statistics import Normalised

        factor = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        running = (self.running_mean, self.running_var) if tracks else (None, None)
        return Normalised.apply(input, self.weight, self.bias, *running, self.eps, factor, group)

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
