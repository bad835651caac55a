"""Images brought to other sizes, sampled at given points, cut into patches and put together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight.nn.functional.pooling import adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "affine_grid", "fold",
    "grid_sample", "interpolate", "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

# The mode of one dim, by mode and number of spatial dims.
_MODES = {
    ("nearest", None): "nearest",
    ("nearest-exact", None): "nearest-exact",
    ("linear", 1): "linear",
    ("bilinear", 2): "linear",
    ("trilinear", 3): "linear",
    ("bicubic", 2): "cubic",
}
_ALIGNABLE = ("linear", "bilinear", "trilinear", "bicubic")


def interpolate(input: Tensor, size: int | Sequence[int] | None = None,
                scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:  # fmt: skip
    """Brings the spatial dims to `size`, or to scale_factor times their size.

    Arguments:
        input: (N, C, ...) with 1 to 3 spatial dims.
        size: the new spatial size, one number for all dims or one per dim.
        scale_factor: or how many times larger.
        mode: 'nearest', 'nearest-exact', 'linear' (3 dims), 'bilinear' and 'bicubic' (4),
            'trilinear' (5), or 'area'.
        align_corners: let the centres of the corner elements stay where they are, for the linear
            and cubic modes.
        recompute_scale_factor: take the scale from the rounded sizes instead of scale_factor.
        antialias: blur when a picture shrinks, for 'bilinear' and 'bicubic'.

    Example:
        >>> x = rl.tensor([[[1.0, 3.0]]])
        >>> F.interpolate(x, scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
        >>> F.interpolate(x, size=3, mode="linear", align_corners=True)
        tensor([[[1., 2., 3.]]])
    """
    dims = input.dim() - 2
    if align_corners is not None and mode not in _ALIGNABLE:
        raise ValueError(
            f"interpolate: align_corners is for the modes {', '.join(_ALIGNABLE)}, got {mode!r}"
        )
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    if antialias and (mode not in ("bilinear", "bicubic") or dims != 2):
        raise ValueError(
            "interpolate: antialias is for bilinear and bicubic of (N, C, H, W), got mode "
            f"{mode!r} and shape {list(input.shape)}"
        )
    if mode == "area":
        pools = {1: _C.adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
        if dims not in pools:
            raise NotImplementedError(
                f"interpolate: mode 'area' takes 3 to 5 dims, got shape {list(input.shape)}"
            )
        return pools[dims](input, sizes)
    kind = _MODES.get((mode, dims)) or _MODES.get((mode, None))
    if kind is None or dims not in (1, 2, 3):
        raise NotImplementedError(
            f"interpolate: mode {mode!r} does not take an input of shape {list(input.shape)}; "
            "linear takes 3 dims, bilinear and bicubic 4, trilinear 5, nearest all of these"
        )
    if antialias:
        kind = "smooth-cubic" if kind == "cubic" else "smooth-linear"
    return _resample(input, sizes, scales, kind, bool(align_corners))


def _per_dim(name, value, kind, input):
    """A number for each of the spatial dims, from a list or from one number."""
    dims = input.dim() - 2
    if not isinstance(value, (list, tuple)):
        return [kind(value)] * dims
    if len(value) != dims:
        raise ValueError(
            f"interpolate: {name} must have one number for each of the {dims} spatial dims, "
            f"got {tuple(value)} for shape {list(input.shape)}"
        )
    return [kind(v) for v in value]


def _sizes(input, size, scale_factor, recompute):
    dims = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: give size or scale_factor, not both")
    if size is not None:
        sizes = _per_dim("size", size, int, input)
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor needs a scale_factor")
        return sizes, [0.0] * dims
    if scale_factor is None:
        raise ValueError("interpolate: either size or scale_factor must be given")
    scales = _per_dim("scale_factor", scale_factor, float, input)
    sizes = [math.floor(n * s) for n, s in zip(input.shape[2:], scales, strict=True)]
    return sizes, [0.0] * dims if recompute else scales


@autocast_policy(cuda="float32")
def _resample(input, sizes, scales, kind, align):
    nearest = kind.startswith("nearest")
    was = input.dtype
    # Pictures of bytes are resampled in integers, and rounded after each dim, the last one first.
    bytes_ = was == _C.uint8 and len(sizes) == 2 and not input.is_cuda
    if input.is_quantized:
        return input.through_floats(lambda x: _resample(x, sizes, scales, kind, align))
    if not input.is_floating_point():
        if was != _C.uint8:
            raise NotImplementedError(f"interpolate: not implemented for {was} tensors")
        if not bytes_:
            input = input.float()
    # The dim that shrinks most first: less work for the others. Of equals the last one, where
    # neighbours have to be gathered one by one.
    order = sorted(range(len(sizes)), key=lambda d: (sizes[d] / max(input.shape[2 + d], 1), -d))
    if bytes_:
        order = [1, 0]
    if kind in ("linear", "smooth-linear", "smooth-cubic"):
        # These leave a dim that keeps its size alone, whatever the scale says.
        kept = [n == m for n, m in zip(sizes, input.shape[2:], strict=True)]
        scales = [0.0 if k else s for k, s in zip(kept, scales, strict=True)]
    result = input
    if input.is_cuda and not kind.startswith("smooth"):
        result, order = _C._resample_image(input, sizes, kind, align, scales), ()
    for d in order:
        same = sizes[d] == input.shape[2 + d] and scales[d] in (0, 1)
        if not same:
            result = _C._resample(result, 2 + d, sizes[d], kind, align, scales[d])
    if was == _C.uint8 and not bytes_:
        return (result if nearest else result.round().clamp(0, 255)).to(was)
    return input.clone() if result is input else result


def upsample(input: Tensor, size: int | Sequence[int] | None = None,
             scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
             align_corners: Any = None) -> Tensor:  # fmt: skip
    """The old name of interpolate.

    Arguments:
        input: (N, C, ...).
        size: the new spatial size.
        scale_factor: or how many times larger.
        mode, align_corners: as for interpolate.

    Example:
        >>> F.upsample(rl.tensor([[[1.0, 3.0]]]), scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
    """
    warnings.warn("nn.functional.upsample is deprecated: use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None,
                     scale_factor: float | Sequence[float] | None = None) -> Tensor:  # fmt: skip
    """interpolate with mode 'nearest'.

    Arguments:
        input: (N, C, ...).
        size: the new spatial size.
        scale_factor: or how many times larger.

    Example:
        >>> F.upsample_nearest(rl.tensor([[[1.0, 3.0]]]), size=4)
        tensor([[[1., 1., 3., 3.]]])
    """
    warnings.warn("upsample_nearest is deprecated: use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None,
                      scale_factor: float | Sequence[float] | None = None) -> Tensor:  # fmt: skip
    """interpolate with mode 'bilinear' and align_corners.

    Arguments:
        input: (N, C, H, W).
        size: the new spatial size.
        scale_factor: or how many times larger.

    Example:
        >>> F.upsample_bilinear(rl.tensor([[[[1.0, 3.0]]]]), size=(1, 3))
        tensor([[[[1., 2., 3.]]]])
    """
    warnings.warn("upsample_bilinear is deprecated: use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def unfold(input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
           padding: int | Sequence[int] = 0,
           stride: int | Sequence[int] = 1) -> Tensor:  # fmt: skip
    """The patches that a kernel sees, one per column.

    A convolution is the product of its weight with these columns; fold puts them back.

    Arguments:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: length of the window, one number for all dims or one per dim.
        dilation: distance between the elements of a window.
        padding: how many elements are added on both sides.
        stride: distance between patches.

    Shape: (N, C * KH * KW, number of patches).

    Example:
        >>> F.unfold(rl.arange(9.0).reshape(1, 1, 3, 3), kernel_size=2, stride=1)
        tensor([[[0., 1., 3., 4.],
                 [1., 2., 4., 5.],
                 [3., 4., 6., 7.],
                 [4., 5., 7., 8.]]])
    """
    return _C._im2col(input, kernel_size, dilation, padding, stride)


def fold(input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int],
         dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
         stride: int | Sequence[int] = 1) -> Tensor:  # fmt: skip
    """Adds patches back to the places they came from.

    Where patches overlap, their elements are added: fold(unfold(x)) is x times how often each
    element was seen.

    Arguments:
        input: (N, C * KH * KW, number of patches).
        output_size: (H, W) of the picture.
        kernel_size: length of the window, one number for all dims or one per dim.
        dilation: distance between the elements of a window.
        padding: how many elements are added on both sides.
        stride: distance between patches.

    Example:
        >>> columns = F.unfold(rl.ones(1, 1, 3, 3), 2)
        >>> F.fold(columns, output_size=(3, 3), kernel_size=2, stride=1)
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """
    return _C._col2im(input, output_size, kernel_size, dilation, padding, stride)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The points that affine maps (N, 2, 3) or (N, 3, 4) send an image's points to.

    Arguments:
        theta: (N, 2, 3), or (N, 3, 4) for volumes.
        size: the shape (N, C, H, W) that grid_sample is to give.
        align_corners: as for grid_sample.

    Shape: (N, H, W, 2).

    Example:
        >>> identity = rl.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> F.affine_grid(identity, (1, 1, 2, 2), align_corners=True)
        tensor([[[[-1., -1.],
                  [ 1., -1.]],
        <BLANKLINE>
                 [[-1.,  1.],
                  [ 1.,  1.]]]])
    """
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: theta must have a floating dtype, got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3) or theta.dim() != 3 or tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(
            "affine_grid: theta (N, 2, 3) goes with a size of 4 numbers and (N, 3, 4) with 5, got "
            f"theta of shape {list(theta.shape)} and size {tuple(size)}"
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: sizes must be positive, got {tuple(size)}")
    axes = [_line(n, bool(align_corners), theta) for n in size[2:]]
    shape = tuple(size[2:])
    points = [axis.view(-1, *[1] * (dims - 1 - d)).expand(shape) for d, axis in enumerate(axes)]
    base = _C.stack([*reversed(points), _C.ones_like(points[0])], -1).view(1, -1, dims + 1)
    grid = base.expand(size[0], -1, -1) @ theta.transpose(1, 2)
    return grid.view(size[0], *size[2:], dims)


def _line(n, align, like):
    """n places from -1 to 1: at the corners' centres, or at the middles of n equal parts."""
    if n == 1:
        return _C.zeros(1, dtype=like.dtype, device=like.device)
    line = _C.linspace(-1, 1, n, dtype=like.dtype, device=like.device)
    return line if align else line * ((n - 1) / n)


GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:  # fmt: skip
    """Samples input at the points of grid, which run from -1 to 1 over the image.

    Arguments:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H_out, W_out, 2) points, x before y, each from -1 to 1; of 3 numbers for five
            dims.
        mode: 'bilinear', 'nearest' or 'bicubic'.
        padding_mode: what lies outside: 'zeros', 'border' or 'reflection'.
        align_corners: -1 and 1 are the centres of the corner elements, not their outer edges;
            None is False.

    Shape: (N, C, H_out, W_out).

    Example:
        >>> picture = rl.arange(4.0).reshape(1, 1, 2, 2)
        >>> F.grid_sample(picture, rl.zeros(1, 1, 1, 2), align_corners=True)
        tensor([[[[1.5000]]]])
    """
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"grid_sample: mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            "grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got "
            f"{padding_mode!r}"
        )
    return _C.grid_sampler(
        input,
        grid,
        GRID_SAMPLE_INTERPOLATION_MODES[mode],
        GRID_SAMPLE_PADDING_MODES[padding_mode],
        bool(align_corners),
    )
