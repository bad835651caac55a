"""Layers of nn.functional under the names of the package, whose options are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_outs


def _functional():
    from rushlight.nn import functional  # nn is loaded when first used

    return functional


__all__ = [
    "_batch_norm_with_update",
    "_native_batch_norm_legit",
    "_pack_padded_sequence",
    "_upsample_bicubic2d_aa",
    "_upsample_bilinear2d_aa",
    "alpha_dropout",
    "alpha_dropout_",
    "conv_tbc",
    "dropout",
    "dropout_",
    "embedding_bag",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "max_pool2d_with_indices_backward",
    "native_batch_norm",
    "native_dropout",
    "native_dropout_backward",
    "native_group_norm",
    "native_layer_norm",
]


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.dropout."""
    return _functional().dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.dropout in place."""
    return _functional().dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.alpha_dropout."""
    return _functional().alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.alpha_dropout in place."""
    return input.copy_(_functional().alpha_dropout(input, p, train))


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.feature_alpha_dropout."""
    return _functional().feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """nn.functional.feature_alpha_dropout in place."""
    return input.copy_(_functional().feature_alpha_dropout(input, p, train))


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Whole channels (dim 1) set to zero with probability p, the others scaled up."""
    if not train or p == 0 or input.numel() == 0:
        return input.clone()
    if not 0 <= p <= 1:
        raise ValueError(f"feature_dropout: p must lie between 0 and 1, got {p}")
    shape = [*input.shape[:2], *(1 for _ in input.shape[2:])]
    keep = _C.rand(shape, device=input.device) >= p
    return input * keep * (1 / (1 - p) if p < 1 else 0.0)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """feature_dropout in place."""
    return input.copy_(feature_dropout(input, p, train))


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout's result, and which elements were kept."""
    if train is False:
        return input.clone(), _C.ones_like(input, dtype=_C.bool)
    keep = _C.rand(input.shape, device=input.device) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * keep * scale, keep


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of native_dropout's input."""
    return grad_output * mask * scale


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """nn.functional.embedding_bag's result first; what PyTorch keeps for backward is empty here."""
    result = _functional().embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode], sparse=sparse, per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    empty = _C.empty(0, dtype=_C.int64, device=weight.device)
    return result, empty, empty, empty


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over (time, batch, channel), with weights (kernel, in, out)."""
    moved = input.permute(1, 2, 0)
    result = _functional().conv1d(moved, weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """nn.functional.grid_sample with its options as numbers."""
    return _functional().grid_sample(
        input, grid, ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode], align_corners,
    )  # fmt: skip


grid_sampler_3d = grid_sampler_2d


@autocast_policy(cuda="float32")
def native_layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None,
                      bias: Tensor | None,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """layer_norm, and the mean and 1 / deviation of each row."""
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    variance, mean = _C.var_mean(input.detach(), dims, correction=0, keepdim=True)
    result = _functional().layer_norm(input, normalized_shape, weight, bias, eps)
    return result, mean, (variance + eps).rsqrt()


def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int,
                      HxW: int, group: int,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """group_norm, and the mean and 1 / deviation of each group."""
    grouped = input.reshape(N, group, C // group * HxW)
    variance, mean = _C.var_mean(grouped, 2, correction=0)
    result = _functional().group_norm(input, group, weight, bias, eps)
    return result, mean, (variance + eps).rsqrt()


def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None,
                      running_mean: Tensor | None, running_var: Tensor | None, training: bool,
                      momentum: float, eps: float, *, out: Sequence[Tensor] | None = None
                      ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """batch_norm, and the mean and 1 / deviation it used."""
    dims = [d for d in range(input.ndim) if d != 1]
    result = _C.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )
    if not training:
        return write_outs("native_batch_norm", (result, *input.new_empty(2, 0).unbind()), out)
    variance, mean = _C.var_mean(input.detach(), dims, correction=0)
    return write_outs("native_batch_norm", (result, mean, (variance + eps).rsqrt()), out)


def _native_batch_norm_legit(input, weight, bias, *settings, out=None, **named):
    """native_batch_norm; the running statistics may be left out."""
    kept = len(settings) + len(named) == 5
    rest = settings if kept else (None, None, *settings)
    return native_batch_norm(input, weight, bias, *rest, **named, out=out)


def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    """native_batch_norm while training, and memory for backward, which is empty here."""
    found = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *found, _C.empty(0, dtype=_C.uint8, device=input.device)


def max_pool2d_with_indices_backward(grad_output: Tensor, self: Tensor, kernel_size: Any,
                                     stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
                                     indices: Tensor) -> Tensor:  # fmt: skip
    """The gradient of max_pool2d's input: each one goes to the place its maximum came from."""
    rows = self.shape[:-2]
    flat = self.reshape(*rows, self.shape[-2] * self.shape[-1]).clone().zero_()
    length = indices.shape[-2] * indices.shape[-1]
    found = flat.scatter_add(-1, indices.reshape(*rows, length), grad_output.reshape(*rows, length))
    return found.reshape(self.shape)


def _upsample_aa(mode):
    def upsample(
        input, output_size, align_corners, scales_h=None, scales_w=None, *, scale_factors=None
    ):
        if output_size is not None:  # the scales say where the elements lie, as PyTorch has it
            from rushlight.nn.functional.vision import _resample

            kind = "smooth-cubic" if mode == "bicubic" else "smooth-linear"
            scales = [scales_h or 0.0, scales_w or 0.0]
            return _resample(input, list(output_size), scales, kind, align_corners)
        return _functional().interpolate(
            input, output_size, scale_factors, mode, align_corners, antialias=True
        )

    return upsample


_upsample_bilinear2d_aa, _upsample_bicubic2d_aa = _upsample_aa("bilinear"), _upsample_aa("bicubic")


def _pack_padded_sequence(input, lengths, batch_first):
    """The data and the batch sizes of a packed sequence."""
    from rushlight.nn.utils.rnn import pack_padded_sequence

    packed = pack_padded_sequence(input, lengths, batch_first)
    return packed.data, packed.batch_sizes
