"""Normalisation of each channel of each sample."""

from __future__ import annotations

import warnings

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules._homes import getattr_of
from rushlight.nn.modules.batchnorm import _check_dims, _NormBase
from rushlight.types import Device, _dtype

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1,
                 affine: bool = False, track_running_stats: bool = False, device: Device = None,
                 dtype: _dtype | None = None, *, bias: bool = True) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self):
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        no_batch = input.dim() == self._get_no_batch_dim()
        channel = input.dim() - self._get_no_batch_dim()
        if input.shape[channel] != self.num_features:
            text = (
                f"{type(self).__name__}: expected {self.num_features} channels at dim {channel}, "
                f"got an input of shape {list(input.shape)}"
            )
            if self.affine:
                raise ValueError(text)
            warnings.warn(text + "; without affine the number is not used", stacklevel=2)
        batch = input.unsqueeze(0) if no_batch else input
        out = F.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if no_batch else out

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):  # fmt: skip
        version = local_metadata.get("version", None)
        if version is None and not self.track_running_stats:
            # Very old files hold statistics that were never used.
            for name in ("running_mean", "running_var"):
                if prefix + name in state_dict:
                    error_msgs.append(
                        f"{prefix}{name}: this {type(self).__name__} keeps no running statistics; "
                        "remove the key, or make the module with track_running_stats=True"
                    )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, L) by itself.

    Arguments:
        num_features: C.
        eps: added to the variance.
        momentum: how much of the moments goes into the running ones.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        track_running_stats: keep running moments, and use them in eval mode.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.InstanceNorm1d(1, eps=0.0)(rl.tensor([[[1.0, 3.0]]]))
        tensor([[[-1.,  1.]]])
    """

    def _get_no_batch_dim(self):
        return 2

    def _check_input_dim(self, input):
        _check_dims(input, (2, 3))


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each picture of (N, C, H, W) by itself.

    Arguments:
        num_features: C.
        eps: added to the variance.
        momentum: how much of the moments goes into the running ones.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        track_running_stats: keep running moments, and use them in eval mode.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.InstanceNorm2d(3, affine=True)(rl.zeros(2, 3, 4, 4)).shape
        rushlight.Size([2, 3, 4, 4])
    """

    def _get_no_batch_dim(self):
        return 3

    def _check_input_dim(self, input):
        _check_dims(input, (3, 4))


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each volume of (N, C, D, H, W) by itself.

    Arguments:
        num_features: C.
        eps: added to the variance.
        momentum: how much of the moments goes into the running ones.
        affine: learn a factor and a summand per channel.
        bias: whether there is a summand, where affine is set.
        track_running_stats: keep running moments, and use them in eval mode.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> nn.InstanceNorm3d(2, affine=True)(rl.zeros(1, 2, 2, 2, 2)).shape
        rushlight.Size([1, 2, 2, 2, 2])
    """

    def _get_no_batch_dim(self):
        return 4

    def _check_input_dim(self, input):
        _check_dims(input, (4, 5))


__getattr__ = getattr_of(__name__)
