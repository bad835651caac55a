"""The lazy versions of modules. Loaded when first asked for, see nn/_uninitialized.py."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor
from rushlight.nn._uninitialized import UninitializedBuffer, UninitializedParameter
from rushlight.nn.modules._homes import live_in
from rushlight.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from rushlight.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.linear import Linear
from rushlight.types import Device, _dtype

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class LazyLinear(LazyModuleMixin, Linear):
    """Linear that takes in_features from its first input.

    Arguments:
        out_features: size of the last dim of the output.
        bias: whether to add one.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyLinear(2, bias=False)
        >>> layer(rl.zeros(5, 3)).shape, layer.in_features
        (rushlight.Size([5, 2]), 3)
    """

    cls_to_become = Linear

    def __init__(self, out_features: Any, bias: bool = True, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Fills the parameters once they have shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))  # type: ignore[attr-defined]
            if self.bias is not None:
                self.bias.materialize((self.out_features,))  # type: ignore[attr-defined]
            self.reset_parameters()
        if self.in_features == 0:  # the shapes came from a state dict
            self.in_features = self.weight.shape[-1]


class _LazyNormBase(LazyModuleMixin):
    def __init__(self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Device = None,
                 dtype: _dtype | None = None, *, bias: bool = True) -> None:  # fmt: skip
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **options)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**options)
            if bias:
                self.bias = UninitializedParameter(**options)
        if track_running_stats:
            from rushlight import _C

            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = _C.zeros((), dtype=_C.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            tensors = (self.weight, self.bias, self.running_mean, self.running_var)
            for tensor in tensors:
                if tensor is not None:
                    tensor.materialize((self.num_features,))
            self.reset_parameters()
        if self.num_features == 0:
            known = self.weight if self.weight is not None else self.running_mean
            self.num_features = known.shape[0] if known is not None else input.shape[1]


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """BatchNorm1d that takes num_features from its first input.

    Arguments:
        eps: added to the variance.
        momentum, affine, track_running_stats, bias: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyBatchNorm1d(affine=True)
        >>> layer(rl.zeros(2, 3, 8)).shape, layer.num_features
        (rushlight.Size([2, 3, 8]), 3)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """BatchNorm2d that takes num_features from its first input.

    Arguments:
        eps: added to the variance.
        momentum, affine, track_running_stats, bias: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyBatchNorm2d(affine=True)
        >>> layer(rl.zeros(2, 3, 8, 8)).shape, layer.num_features
        (rushlight.Size([2, 3, 8, 8]), 3)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """BatchNorm3d that takes num_features from its first input.

    Arguments:
        eps: added to the variance.
        momentum, affine, track_running_stats, bias: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyBatchNorm3d(affine=True)
        >>> layer(rl.zeros(2, 3, 8, 8, 8)).shape, layer.num_features
        (rushlight.Size([2, 3, 8, 8, 8]), 3)
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """InstanceNorm1d that takes num_features from its first input.

    Arguments:
        eps: added to the variance.
        momentum, affine, track_running_stats, bias: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyInstanceNorm1d(affine=True)
        >>> layer(rl.zeros(2, 3, 8)).shape, layer.num_features
        (rushlight.Size([2, 3, 8]), 3)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """InstanceNorm2d that takes num_features from its first input.

    Arguments:
        eps: added to the variance.
        momentum, affine, track_running_stats, bias: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyInstanceNorm2d(affine=True)
        >>> layer(rl.zeros(2, 3, 8, 8)).shape, layer.num_features
        (rushlight.Size([2, 3, 8, 8]), 3)
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """InstanceNorm3d that takes num_features from its first input.

    Arguments:
        eps: added to the variance.
        momentum, affine, track_running_stats, bias: as for the layer that is not lazy.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> layer = nn.LazyInstanceNorm3d(affine=True)
        >>> layer(rl.zeros(2, 3, 8, 8, 8)).shape, layer.num_features
        (rushlight.Size([2, 3, 8, 8, 8]), 3)
    """

    cls_to_become = InstanceNorm3d


live_in("linear", LazyLinear)
live_in("batchnorm", LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d)
live_in("instancenorm", LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d)
