"""The operators of torchvision's C++ library that Rushlight has, by its names and with its
arguments: `ops.torchvision.nms`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.absent import explained
from rushlight._names.missing import not_available


def _roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """The gradient of roi_align's input."""
    sizes, bins = [batch_size, channels, height, width], [pooled_height, pooled_width]
    return _C._roi_places_backward(
        grad, rois, sizes, spatial_scale, bins, sampling_ratio, aligned, False
    )


def _ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of ps_roi_align's input: each bin has channels of its own."""
    return _C._roi_places_backward(
        grad, rois, [batch_size, channels, height, width], spatial_scale,
        [pooled_height, pooled_width], sampling_ratio, aligned=True, by_position=True,
    )  # fmt: skip


def _roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of roi_pool's input."""
    return _C._roi_largest_backward(grad, rois, argmax, [batch_size, channels, height, width])


def _ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of ps_roi_pool's input."""
    sizes, bins = [batch_size, channels, height, width], [pooled_height, pooled_width]
    return _C._roi_means_backward(grad, rois, sizes, spatial_scale, bins)


def _deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
    stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of deform_conv2d's tensors; zeros for a mask that is not used."""
    given = (input, weight, offset, mask, bias)
    with rushlight.enable_grad():
        x, w, moves, weights, shift = leaves = [t.detach().requires_grad_() for t in given]
        out = _C._deform_conv2d(
            x, w, moves, weights, shift, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
            groups, offset_groups, use_mask,
        )  # fmt: skip
    return rushlight.autograd.grad(out, leaves, grad, materialize_grads=True)


_NAMES = "nms roi_align roi_pool ps_roi_align ps_roi_pool deform_conv2d"
_BACKWARD = (
    _roi_align_backward,
    _ps_roi_align_backward,
    _roi_pool_backward,
    _ps_roi_pool_backward,
    _deform_conv2d_backward,
)
OPERATORS: dict[str, Callable[..., Any]] = {
    name: getattr(_C, f"_{name}") for name in _NAMES.split()
}
OPERATORS |= {function.__name__: function for function in _BACKWARD}
OPERATORS["qroi_align"] = not_available("ops.torchvision.qroi_align", explained("quantization"))
