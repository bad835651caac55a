"""Normalisations with running statistics: over the batch, and over each sample."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.functional.norm import batch_norm_counted
from rushlight.nn.modules._homes import getattr_of
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]


class _NormBase(Module):
    """Parameters and running statistics, one of each for a channel."""

    _version = 2
    __constants__: tuple[str, ...] = (
        "track_running_stats",
        "momentum",
        "eps",
        "num_features",
        "affine",
    )

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True, device: Device = None,
                 dtype: _dtype | None = None, *, bias: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            param = Parameter(_C.empty(num_features, **options)) if wanted else None
            self.register_parameter(name, param)
        if track_running_stats:
            self.register_buffer("running_mean", _C.zeros(num_features, **options))
            self.register_buffer("running_var", _C.ones(num_features, **options))
            self.register_buffer("num_batches_tracked", _C.zeros((), dtype=_C.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, nothing counted."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # Files from before batches were counted.
            counted = self.num_batches_tracked
            known = counted is not None and not counted.is_meta
            state_dict[key] = counted if known else _C.zeros((), dtype=_C.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        counts = self.training and self.track_running_stats and self.num_batches_tracked is not None
        if counts and self.momentum is not None:
            return batch_norm_counted(
                input,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                self.num_batches_tracked,
                self.momentum,
                self.eps,
            )
        factor = 0.0 if self.momentum is None else self.momentum
        if counts:  # a plain average of all batches
            self.num_batches_tracked.add_(1)
            factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        move = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if move else None,
            self.running_var if move else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


def _check_dims(input, allowed):
    if input.dim() not in allowed:
        wanted = " or ".join(f"{n}D" for n in allowed)
        raise ValueError(f"expected {wanted} input, got shape {list(input.shape)}")


class BatchNorm1d(_BatchNorm):
    """Normalises each channel of (N, C) or (N, C, L) over the batch.

    While training by the moments of the batch, which also move the running ones; in eval mode by
    those.

    Arguments:
        num_features: C.
        eps: added to the variance.
        momentum: how much of a batch's moments goes into the running ones; None averages all
            batches.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        track_running_stats: keep running moments; without, batches are used in eval mode, too.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.BatchNorm1d(1, affine=False)
        >>> layer(rl.tensor([[1.0], [3.0]])), layer.running_mean
        (tensor([[-1.0000],
                [ 1.0000]]), tensor([0.2000]))
    """

    def _check_input_dim(self, input):
        _check_dims(input, (2, 3))


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of (N, C, H, W) over the batch and the picture.

    While training by the moments of the batch, which also move the running ones; in eval mode by
    those, so call eval() before predicting.

    Arguments:
        num_features: C.
        eps: added to the variance.
        momentum: how much of a batch's moments goes into the running ones; None averages all
            batches.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        track_running_stats: keep running moments; without, batches are used in eval mode, too.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.BatchNorm2d(3, momentum=0.5)
        >>> layer(rl.ones(2, 3, 4, 4)).shape, layer.running_mean
        (rushlight.Size([2, 3, 4, 4]), tensor([0.5000, 0.5000, 0.5000]))
    """

    def _check_input_dim(self, input):
        _check_dims(input, (4,))


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of (N, C, D, H, W) over the batch and the volume.

    Arguments:
        num_features: C.
        eps: added to the variance.
        momentum: how much of a batch's moments goes into the running ones; None averages all
            batches.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        track_running_stats: keep running moments; without, batches are used in eval mode, too.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.BatchNorm3d(2, affine=False)(rl.zeros(1, 2, 2, 2, 2)).shape
        rushlight.Size([1, 2, 2, 2, 2])
    """

    def _check_input_dim(self, input):
        _check_dims(input, (5,))


_lazy_ones = getattr_of(__name__)


def __getattr__(name: str) -> Any:
    if name == "SyncBatchNorm":  # PyTorch keeps it here
        from rushlight.nn.modules.sync_batchnorm import SyncBatchNorm

        return SyncBatchNorm
    return _lazy_ones(name)
