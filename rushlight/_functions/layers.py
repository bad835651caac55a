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
    """`nn.functional.dropout`, whose arguments have no defaults here.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.

    Example:
        >>> rl.dropout(rl.ones(3), 1.0, True), rl.dropout(rl.ones(3), 1.0, False)
        (tensor([0., 0., 0.]), tensor([1., 1., 1.]))
    """
    return _functional().dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `dropout`.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.
    """
    return _functional().dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`, whose arguments have no defaults here.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.

    Example:
        >>> x = rl.randn(10_000)
        >>> y = rl.alpha_dropout(x, 0.5, True)
        >>> abs(y.mean().item()) < 0.1, abs(y.std().item() - 1) < 0.1
        (True, True)
    """
    return _functional().alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `alpha_dropout`.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.
    """
    return input.copy_(_functional().alpha_dropout(input, p, train))


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`, whose arguments have no defaults here.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.

    Example:
        >>> x = rl.zeros(2, 3, 4)
        >>> y = rl.feature_alpha_dropout(x, 0.5, True)
        >>> (y == y[:, :, :1]).all()  # a channel goes or stays as a whole
        tensor(True)
    """
    return _functional().feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `feature_alpha_dropout`.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.
    """
    return input.copy_(_functional().feature_alpha_dropout(input, p, train))


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Whole channels (dim 1) set to zero with probability p, the others scaled up.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.

    Example:
        >>> y = rl.feature_dropout(rl.ones(2, 8, 3), 0.5, True)
        >>> sorted(set(y.sum(2).flatten().tolist()))
        [0.0, 6.0]
    """
    if not train or p == 0 or input.numel() == 0:
        return input.clone()
    if not 0 <= p <= 1:
        raise ValueError(f"feature_dropout: p must lie between 0 and 1, got {p}")
    shape = [*input.shape[:2], *(1 for _ in input.shape[2:])]
    keep = _C.rand(shape, device=input.device) >= p
    return input * keep * (1 / (1 - p) if p < 1 else 0.0)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `feature_dropout`.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.
    """
    return input.copy_(feature_dropout(input, p, train))


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout's result, and which elements were kept.

    Arguments:
        input: a tensor of any shape.
        p: the chance of each element to become zero.
        train: False gives the input as it is.

    Example:
        >>> y, kept = rl.native_dropout(rl.ones(100), 0.5, True)
        >>> rl.equal(y, 2.0 * kept)
        True
    """
    if train is False:
        return input.clone(), _C.ones_like(input, dtype=_C.bool)
    keep = _C.rand(input.shape, device=input.device) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * keep * scale, keep


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of native_dropout's input.

    Arguments:
        grad_output: the gradient of its first result.
        mask: its second result.
        scale: 1 / (1 - p).

    Example:
        >>> rl.native_dropout_backward(rl.ones(3), rl.tensor([True, False, True]), 2.0)
        tensor([2., 0., 2.])
    """
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
    """`nn.functional.embedding_bag`'s result first; what PyTorch keeps for backward is empty here.

    Arguments:
        weight: (rows, features), the vectors.
        indices: which rows, all bags in one list.
        offsets: where each bag begins in it.
        scale_grad_by_freq: divide a row's gradient by how often it is in the batch.
        mode: 0 adds the vectors of a bag, 1 takes their mean, 2 their maximum.
        sparse: make the gradient of weight sparse.
        per_sample_weights: factors of the vectors; only with mode 0.
        include_last_offset: offsets also tell where the last bag ends.
        padding_idx: a row that does not count.

    Example:
        >>> bags = rl.embedding_bag(rl.eye(3), rl.tensor([0, 1, 2]), rl.tensor([0, 2]), mode=1)
        >>> bags[0]
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    result = _functional().embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode], sparse=sparse, per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    empty = _C.empty(0, dtype=_C.int64, device=weight.device)
    return result, empty, empty, empty


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over (time, batch, channel), with weights (kernel, in, out).

    Arguments:
        input: (time, batch, channels).
        weight: (kernel size, channels, channels of the result).
        bias: one number per channel of the result.
        pad: zeros at both ends of the time.

    Example:
        >>> rl.conv_tbc(rl.ones(3, 1, 1), rl.ones(3, 1, 2), rl.zeros(2), pad=1).squeeze()
        tensor([[2., 2.],
                [3., 3.],
                [2., 2.]])
    """
    moved = input.permute(1, 2, 0)
    result = _functional().conv1d(moved, weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample`, with its options as numbers.

    Arguments:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: where to look, from -1 to 1: (N, H', W', 2) or (N, D', H', W', 3).
        interpolation_mode: 0 bilinear, 1 nearest, 2 bicubic.
        padding_mode: outside there are 0 zeros, 1 the nearest element, 2 reflections.
        align_corners: -1 and 1 are the centres of the corner elements, not their far edges.

    Example:
        >>> x = rl.arange(4.0).view(1, 1, 2, 2)
        >>> rl.grid_sampler_2d(x, rl.zeros(1, 1, 1, 2), 0, 0, False).item()
        1.5
    """
    return _functional().grid_sample(
        input, grid, ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode], align_corners,
    )  # fmt: skip


grid_sampler_3d = grid_sampler_2d


@autocast_policy(cuda="float32")
def native_layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None,
                      bias: Tensor | None,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """layer_norm, and the mean and 1 / deviation of each row.

    Arguments:
        input: a tensor whose last dims are normalised.
        normalized_shape: the sizes of those dims.
        weight, bias: a factor and a summand per element of them, or None.
        eps: is added to the variance.

    Example:
        >>> y, mean, rstd = rl.native_layer_norm(rl.tensor([[1.0, 3.0]]), [2], None, None, 0.0)
        >>> y, mean, rstd
        (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    variance, mean = _C.var_mean(input.detach(), dims, correction=0, keepdim=True)
    result = _functional().layer_norm(input, normalized_shape, weight, bias, eps)
    return result, mean, (variance + eps).rsqrt()


def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int,
                      HxW: int, group: int,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """group_norm, and the mean and 1 / deviation of each group.

    Arguments:
        input: (N, C, ...).
        weight, bias: a factor and a summand per channel, or None.
        N, C, HxW: samples, channels, and elements of a channel.
        group: how many groups the channels are cut into.
        eps: is added to the variance.

    Example:
        >>> x = rl.tensor([[[1.0, 3.0], [10.0, 10.0]]])
        >>> y, mean, rstd = rl.native_group_norm(x, None, None, 1, 2, 2, 2, 1.0)
        >>> mean, rstd
        (tensor([[ 2., 10.]]), tensor([[0.7071, 1.0000]]))
    """
    grouped = input.reshape(N, group, C // group * HxW)
    variance, mean = _C.var_mean(grouped, 2, correction=0)
    result = _functional().group_norm(input, group, weight, bias, eps)
    return result, mean, (variance + eps).rsqrt()


def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None,
                      running_mean: Tensor | None, running_var: Tensor | None, training: bool,
                      momentum: float, eps: float, *, out: Sequence[Tensor] | None = None
                      ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """batch_norm, and the mean and 1 / deviation it used (empty where it did not compute them).

    Arguments:
        input: (N, C, ...).
        weight, bias: a factor and a summand per channel, or None.
        running_mean, running_var: statistics that training updates and evaluation uses.
        training: normalise by this batch.
        momentum: how much of the running statistics a batch replaces.
        eps: is added to the variance.
        out: tensors to write the three results to.

    Example:
        >>> x = rl.tensor([[1.0], [3.0]])
        >>> rl.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)[1:]
        (tensor([2.]), tensor([1.]))
    """
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
    """The gradient of max_pool2d's input: each one goes to the place its maximum came from.

    Arguments:
        grad_output: the gradient of the result.
        self: the input.
        kernel_size, stride, padding, dilation, ceil_mode: as max_pool2d had them; `indices` say
            it all.
        indices: what max_pool2d gave with return_indices.

    Example:
        >>> x = rl.tensor([[[1.0, 4.0], [3.0, 2.0]]])
        >>> _, places = F.max_pool2d(x, 2, return_indices=True)
        >>> args = (2, 2, 0, 1, False, places)
        >>> rl.max_pool2d_with_indices_backward(rl.ones(1, 1, 1), x, *args)
        tensor([[[0., 1.],
                 [0., 0.]]])
    """
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
