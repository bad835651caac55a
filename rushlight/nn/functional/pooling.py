"""Pools: the largest element, the average or the norm of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, overload

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip

_OutputSize: TypeAlias = int | Sequence[int | None]  # None stands for the input's size

if TYPE_CHECKING:
    # What the pools that are made in a loop below look like.

    class _MaxPool(Protocol):
        @overload
        def __call__(self, input: Tensor, kernel_size: int | Sequence[int],
                     stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
                     dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                     return_indices: Literal[False] = False) -> Tensor: ...  # fmt: skip
        @overload
        def __call__(self, input: Tensor, kernel_size: int | Sequence[int],
                     stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
                     dilation: int | Sequence[int] = 1, ceil_mode: bool = False, *,
                     return_indices: Literal[True]) -> tuple[Tensor, Tensor]: ...  # fmt: skip

    class _FractionalMaxPool(Protocol):
        @overload
        def __call__(self, input: Tensor, kernel_size: int | Sequence[int],
                     output_size: int | Sequence[int] | None = None,
                     output_ratio: float | Sequence[float] | None = None,
                     return_indices: Literal[False] = False,
                     _random_samples: Tensor | None = None) -> Tensor: ...  # fmt: skip
        @overload
        def __call__(self, input: Tensor, kernel_size: int | Sequence[int],
                     output_size: int | Sequence[int] | None = None,
                     output_ratio: float | Sequence[float] | None = None, *,
                     return_indices: Literal[True],
                     _random_samples: Tensor | None = None
                     ) -> tuple[Tensor, Tensor]: ...  # fmt: skip


_WITH_INDICES = {
    1: _C.max_pool1d_with_indices,
    2: _C._max_pool2d_with_indices,
    3: _C._max_pool3d_with_indices,
}
# Where nobody wants a gradient they leave the indices out.
_VALUES = {1: _C.max_pool1d, 2: _C.max_pool2d, 3: _C.max_pool3d}


_SHAPES = {
    1: {"shape": "(N, C, L)", "single": "(C, L)", "sizes": "2, 8", "shown": "[1, 2, 4]"},
    2: {"shape": "(N, C, H, W)", "single": "(C, H, W)", "sizes": "2, 8, 8",
        "shown": "[1, 2, 4, 4]"},
    3: {"shape": "(N, C, D, H, W)", "single": "(C, D, H, W)", "sizes": "2, 8, 8, 8",
        "shown": "[1, 2, 4, 4, 4]"},
}  # fmt: skip
_MAX_POOL = """The largest element of each window, and where it stands in the image if asked for.

Each spatial size n becomes (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

Arguments:
    input: {shape} or {single}.
    kernel_size: length of the window, one number for all dims or one per dim.
    stride: distance between windows; None is kernel_size.
    padding: elements of -inf on both sides, at most half of kernel_size.
    dilation: distance between the elements of a window.
    ceil_mode: keep a last window that hangs over the border.
    return_indices: return (elements, positions); functions `..._with_indices` always do.

Example:
    >>> values, where = F.{name}(rl.zeros(1, {sizes}), 3, 2, padding=1, return_indices=True)
    >>> values.shape, where.dtype
    (rushlight.Size({shown}), rushlight.int64)
"""


def _max_pool(dims):
    def with_indices(input: Tensor, kernel_size: int | Sequence[int],
                     stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
                     dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                     return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
        stride = () if stride is None else stride
        return _WITH_INDICES[dims](input, kernel_size, stride, padding, dilation, ceil_mode)

    def max_pool(input: Tensor, kernel_size: int | Sequence[int],
                 stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
                 dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                 return_indices: bool = False
                 ) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
        pool = _WITH_INDICES[dims] if return_indices else _VALUES[dims]
        stride = () if stride is None else stride
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{dims}d"
    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{dims}d_with_indices"
    for pool in (max_pool, with_indices):
        pool.__doc__ = _MAX_POOL.format(name=pool.__name__, **_SHAPES[dims])
    return max_pool, with_indices


max_pool1d: _MaxPool
max_pool2d: _MaxPool
max_pool3d: _MaxPool
max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def avg_pool2d(input: Tensor, kernel_size: int | Sequence[int],
               stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:  # fmt: skip
    """The average of each window.

    Arguments:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: zeros on both sides.
        ceil_mode: keep a last window that hangs over the border.
        count_include_pad: let the zeros of the padding count.
        divisor_override: divide by this instead of the number of elements.

    Example:
        >>> x = rl.arange(16.0).reshape(1, 1, 4, 4)
        >>> F.avg_pool2d(x, 2)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])
        >>> F.avg_pool2d(rl.ones(1, 1, 2, 2), 2, padding=1, count_include_pad=False)
        tensor([[[[1., 1.],
                  [1., 1.]]]])
    """
    stride = () if stride is None else stride
    return _C._avg_pool2d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(input: Tensor, kernel_size: int | Sequence[int],
               stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:  # fmt: skip
    """The average of each window.

    Arguments:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: zeros on both sides.
        ceil_mode: keep a last window that hangs over the border.
        count_include_pad: let the zeros of the padding count.
        divisor_override: divide by this instead of the number of elements.

    Example:
        >>> F.avg_pool3d(rl.arange(8.0).reshape(1, 1, 2, 2, 2), 2, stride=1)
        tensor([[[[[3.5000]]]]])
    """
    stride = () if stride is None else stride
    return _C._avg_pool3d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _output_size(input, output_size, dims):
    """None stands for the input's size."""
    if isinstance(output_size, int):
        return (output_size,) * dims
    output_size = tuple(output_size)
    if not output_size:
        raise RuntimeError(f"adaptive pooling: output_size must have {dims} sizes, got none")
    if len(output_size) != dims:
        return output_size  # the op says what is wrong
    sizes = input.shape[-dims:]
    return tuple(n if o is None else o for o, n in zip(output_size, sizes, strict=True))


def adaptive_avg_pool2d(input: Tensor, output_size: _OutputSize) -> Tensor:
    """Averages of as many windows as output_size asks for.

    With output_size=1 it is the mean of each channel, the usual end of a convolutional network.

    Arguments:
        input: (N, C, H, W) or (C, H, W).
        output_size: (H, W) of the result, or one number for both; None keeps a size.

    Example:
        >>> F.adaptive_avg_pool2d(rl.arange(16.0).reshape(1, 1, 4, 4), 2)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])
        >>> F.adaptive_avg_pool2d(rl.zeros(1, 3, 7, 9), (None, 4)).shape
        rushlight.Size([1, 3, 7, 4])
    """
    return _C._adaptive_avg_pool2d(input, _output_size(input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: _OutputSize) -> Tensor:
    """Averages of as many windows as output_size asks for.

    Arguments:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: (D, H, W) of the result, or one number for all; None keeps a size.

    Example:
        >>> F.adaptive_avg_pool3d(rl.arange(8.0).reshape(1, 1, 2, 2, 2), 1)
        tensor([[[[[3.5000]]]]])
    """
    return _C._adaptive_avg_pool3d(input, _output_size(input, output_size, 3))


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: _OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest elements of as many windows as output_size asks for, and their places.

    Arguments:
        input, output_size, return_indices: as for adaptive_max_pool1d; both are always returned.

    Example:
        >>> F.adaptive_max_pool1d_with_indices(rl.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2,
        ...     return_indices=True)
        rushlight.return_types.adaptive_max_pool1d(
        values=tensor([[[5., 4.]]]),
        indices=tensor([[[1, 3]]]))
    """
    return _C.adaptive_max_pool1d(input, _output_size(input, output_size, 1))


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: _OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest elements of as many windows as output_size asks for, and their places.

    Arguments:
        input, output_size, return_indices: as for adaptive_max_pool2d; both are always returned.

    Example:
        >>> x = rl.arange(4.0).reshape(1, 1, 2, 2)
        >>> F.adaptive_max_pool2d_with_indices(x, 1, return_indices=True)
        rushlight.return_types._adaptive_max_pool2d(
        values=tensor([[[[3.]]]]),
        indices=tensor([[[[3]]]]))
    """
    return _C._adaptive_max_pool2d(input, _output_size(input, output_size, 2))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: _OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest elements of as many windows as output_size asks for, and their places.

    Arguments:
        input, output_size, return_indices: as for adaptive_max_pool3d; both are always returned.

    Example:
        >>> x = rl.arange(8.0).reshape(1, 1, 2, 2, 2)
        >>> F.adaptive_max_pool3d_with_indices(x, 1, return_indices=True)
        rushlight.return_types._adaptive_max_pool3d(
        values=tensor([[[[[7.]]]]]),
        indices=tensor([[[[[7]]]]]))
    """
    return _C._adaptive_max_pool3d(input, _output_size(input, output_size, 3))


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: _OutputSize, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: _OutputSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: _OutputSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of as many windows as output_size asks for.

    Arguments:
        input: (N, C, L) or (C, L).
        output_size: how many windows.
        return_indices: return where the elements were as well.

    Example:
        >>> F.adaptive_max_pool1d(rl.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2, return_indices=True)
        rushlight.return_types.adaptive_max_pool1d(
        values=tensor([[[5., 4.]]]),
        indices=tensor([[[1, 3]]]))
    """
    pair = adaptive_max_pool1d_with_indices(input, output_size)
    return pair if return_indices else pair[0]


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: _OutputSize, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: _OutputSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: _OutputSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of as many windows as output_size asks for.

    Arguments:
        input: (N, C, H, W) or (C, H, W).
        output_size: (H, W) of the result, or one number for both; None keeps a size.
        return_indices: return where the elements were as well.

    Example:
        >>> F.adaptive_max_pool2d(rl.arange(16.0).reshape(1, 1, 4, 4), (1, 2), return_indices=True)
        rushlight.return_types._adaptive_max_pool2d(
        values=tensor([[[[13., 15.]]]]),
        indices=tensor([[[[13, 15]]]]))
    """
    pair = adaptive_max_pool2d_with_indices(input, output_size)
    return pair if return_indices else pair[0]


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: _OutputSize, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: _OutputSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool3d(
    input: Tensor, output_size: _OutputSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of as many windows as output_size asks for.

    Arguments:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: (D, H, W) of the result, or one number for all; None keeps a size.
        return_indices: return where the elements were as well.

    Example:
        >>> F.adaptive_max_pool3d(rl.arange(8.0).reshape(1, 1, 2, 2, 2), 1, return_indices=True)
        rushlight.return_types._adaptive_max_pool3d(
        values=tensor([[[[[7.]]]]]),
        indices=tensor([[[[[7]]]]]))
    """
    pair = adaptive_max_pool3d_with_indices(input, output_size)
    return pair if return_indices else pair[0]


def _tuple(value, dims):
    return (value,) * dims if isinstance(value, int) else tuple(value)


_FRACTIONAL = """The largest elements of windows at distances that vary at random.

Arguments:
    input: {shape} or {single}.
    kernel_size: length of the window, one number for all dims or one per dim.
    output_size: spatial size of the result; this or output_ratio is given.
    output_ratio: the size of the result as a part of that of the input, between 0 and 1.
    return_indices: return (elements, positions); functions `..._with_indices` always do.

Example:
    >>> values, where = F.{name}(
    ...     rl.zeros(1, {sizes}), 2, output_ratio=0.5, return_indices=True)
    >>> values.shape
    rushlight.Size({shown})
"""


def _fractional(dims):
    name = f"fractional_max_pool{dims}d"

    def with_indices(input: Tensor, kernel_size: int | Sequence[int],
                     output_size: int | Sequence[int] | None = None,
                     output_ratio: float | Sequence[float] | None = None,
                     return_indices: bool = False,
                     _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name}: either output_size or output_ratio must be given")
        if input.dim() not in (dims + 1, dims + 2):
            raise _C.ShapeError(
                f"{name}: the input must have {dims + 1} (one image) or {dims + 2} dims, got "
                f"shape {list(input.shape)}"
            )
        if output_size is None:
            ratio = (
                output_ratio if isinstance(output_ratio, (tuple, list)) else [output_ratio] * dims
            )
            output_size = [int(n * r) for n, r in zip(input.shape[-dims:], ratio, strict=True)]
        batch = input if input.dim() == dims + 2 else input.unsqueeze(0)
        if _random_samples is None:
            _random_samples = _C.rand(
                (*batch.shape[:2], dims), dtype=input.dtype, device=input.device
            )
        samples = _random_samples[: batch.shape[0]]  # there may be more than images
        values, indices = _C._fractional_max_pool(
            batch, _tuple(kernel_size, dims), _tuple(output_size, dims), samples
        )
        return (values, indices) if batch is input else (values.squeeze(0), indices.squeeze(0))

    def pool(input: Tensor, kernel_size: int | Sequence[int],
             output_size: int | Sequence[int] | None = None,
             output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
             _random_samples: Tensor | None = None
             ) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
        pair = with_indices(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )
        return pair if return_indices else pair[0]

    pool.__name__ = pool.__qualname__ = name
    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    for made in (pool, with_indices):
        made.__doc__ = _FRACTIONAL.format(name=made.__name__, **_SHAPES[dims])
    policy = autocast_policy(cpu="float32")
    return policy(pool), policy(with_indices)


fractional_max_pool2d: _FractionalMaxPool
fractional_max_pool3d: _FractionalMaxPool
fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)


def _lp(average, dims, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = _tuple(kernel_size, dims)
    count = 1
    for size in kernel:
        count *= size
    mean = average(input.pow(norm_type), kernel, stride or (), 0, ceil_mode)
    return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: int | float, kernel_size: int,
              stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """(sum of x^p)^(1/p) of each window.

    Arguments:
        input: (N, C, L) or (C, L).
        norm_type: p.
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        ceil_mode: keep a last window that hangs over the border.

    Example:
        >>> F.lp_pool1d(rl.tensor([[[3.0, 4.0, 0.0]]]), 2, kernel_size=2, stride=1)
        tensor([[[5., 4.]]])
    """
    return _lp(_C.avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: int | float, kernel_size: int | Sequence[int],
              stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """(sum of x^p)^(1/p) of each window.

    Arguments:
        input: (N, C, H, W) or (C, H, W).
        norm_type: p.
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        ceil_mode: keep a last window that hangs over the border.

    Example:
        >>> F.lp_pool2d(rl.tensor([[[[3.0, 4.0, 0.0]]]]), 2, kernel_size=(1, 2), stride=1)
        tensor([[[[5., 4.]]]])
    """
    return _lp(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: int | float, kernel_size: int | Sequence[int],
              stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """(sum of x^p)^(1/p) of each window.

    Arguments:
        input: (N, C, D, H, W) or (C, D, H, W).
        norm_type: p.
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        ceil_mode: keep a last window that hangs over the border.

    Example:
        >>> F.lp_pool3d(rl.ones(1, 1, 2, 2, 2), 1, kernel_size=2, stride=1)
        tensor([[[[[8.]]]]])
    """
    return _lp(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)


def _unpooled_size(name, input, kernel, stride, padding, output_size):
    dims = len(kernel)
    sizes = [
        (n - 1) * stride[d] - 2 * padding[d] + kernel[d] for d, n in enumerate(input.shape[-dims:])
    ]
    if output_size is None:
        return sizes
    output_size = list(output_size)
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"{name}: output_size must have {dims} or {dims + 2} numbers, got {output_size}"
        )
    for d, (wanted, size) in enumerate(zip(output_size, sizes, strict=True)):
        if not size - stride[d] < wanted < size + stride[d]:
            raise ValueError(
                f"{name}: output_size {output_size} is too far from {sizes}: each number may "
                f"differ by less than the stride {list(stride)}"
            )
    return output_size


def _unpool(dims, input, indices, kernel_size, stride, padding, output_size):
    name = f"max_unpool{dims}d"
    kernel = _tuple(kernel_size, dims)
    stride = kernel if stride is None else _tuple(stride, dims)
    padding = _tuple(padding, dims)
    if indices.dtype != _C.int64:
        raise RuntimeError(f"{name}: indices must be int64, got {indices.dtype}")
    if indices.shape != input.shape or input.dim() not in (dims + 1, dims + 2):
        raise _C.ShapeError(
            f"{name}: input and indices must have the same shape, of {dims + 1} or {dims + 2} "
            f"dims; got {list(input.shape)} and {list(indices.shape)}"
        )
    size = _unpooled_size(name, input, kernel, stride, padding, output_size)
    start = input.dim() - dims
    flat = input.flatten(start)
    count = 1
    for n in size:
        count *= n
    zeros = _C.zeros((*input.shape[:start], count), dtype=input.dtype, device=input.device)
    return zeros.scatter(-1, indices.flatten(start), flat).view(*input.shape[:start], *size)


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int],
                 stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
                 output_size: int | Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Puts the elements of a max pool back where they came from, zeros elsewhere.

    Arguments:
        input: what max_pool1d gave.
        indices: where it took the elements from (return_indices=True).
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: how many elements are added on both sides.
        output_size: the size before pooling, where several are possible.

    Example:
        >>> pooled, where = F.max_pool1d(rl.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2,
        ...     return_indices=True)
        >>> F.max_unpool1d(pooled, where, 2, output_size=(5,))
        tensor([[[0., 5., 0., 4., 0.]]])
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@autocast_policy(cpu="float32")
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int],
                 stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
                 output_size: int | Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Puts the elements of a max pool back where they came from, zeros elsewhere.

    Arguments:
        input: what max_pool2d gave.
        indices: where it took the elements from (return_indices=True).
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: how many elements are added on both sides.
        output_size: the size before pooling, where several are possible.

    Example:
        >>> pooled, where = F.max_pool2d(rl.arange(4.0).reshape(1, 1, 2, 2), 2, return_indices=True)
        >>> F.max_unpool2d(pooled, where, 2, output_size=(2, 2))
        tensor([[[[0., 0.],
                  [0., 3.]]]])
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@autocast_policy(cpu="float32")
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int],
                 stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
                 output_size: int | Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Puts the elements of a max pool back where they came from, zeros elsewhere.

    Arguments:
        input: what max_pool3d gave.
        indices: where it took the elements from (return_indices=True).
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: how many elements are added on both sides.
        output_size: the size before pooling, where several are possible.

    Example:
        >>> pooled, where = F.max_pool3d(rl.rand(1, 1, 2, 2, 2), 2, return_indices=True)
        >>> F.max_unpool3d(pooled, where, 2, stride=2).shape
        rushlight.Size([1, 1, 2, 2, 2])
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
