"""Pools as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


def _tuple(value, dims):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class _MaxPool(Module):
    __constants__ = "kernel_size stride padding dilation return_indices ceil_mode".split()

    def __init__(self, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] | None = None, padding: int | tuple[int, ...] = 0,
                 dilation: int | tuple[int, ...] = 1, return_indices: bool = False,
                 ceil_mode: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.dilation,
                          self.ceil_mode, self.return_indices)  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of (N, C, L).

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: elements of -inf on both sides.
        dilation: distance between the elements of a window.
        return_indices: return where the elements were as well.
        ceil_mode: keep a last window that hangs over the border.

    Shape: (N, C, L) to (N, C, (L + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1).

    Example:
        >>> nn.MaxPool1d(2, stride=1)(rl.tensor([[[1.0, 5.0, 2.0, 4.0]]]))
        tensor([[[5., 5., 4.]]])
    """

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of each window of (N, C, H, W).

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: elements of -inf on both sides.
        dilation: distance between the elements of a window.
        return_indices: return where the elements were as well.
        ceil_mode: keep a last window that hangs over the border.

    Shape: (N, C, H, W) to (N, C, H_out, W_out) with H_out = (H + 2 padding - dilation
        (kernel_size - 1) - 1) // stride + 1.

    Example:
        >>> nn.MaxPool2d(2)(rl.arange(16.0).reshape(1, 1, 4, 4))
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
        >>> nn.MaxPool2d(3, stride=2, padding=1)(rl.zeros(1, 3, 32, 32)).shape
        rushlight.Size([1, 3, 16, 16])
    """

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest element of each window of (N, C, D, H, W).

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: elements of -inf on both sides.
        dilation: distance between the elements of a window.
        return_indices: return where the elements were as well.
        ceil_mode: keep a last window that hangs over the border.

    Example:
        >>> nn.MaxPool3d(2, stride=1)(rl.zeros(1, 1, 4, 4, 4)).shape
        rushlight.Size([1, 1, 3, 3, 3])
    """

    _pool = staticmethod(F.max_pool3d)


class _Windows(Module):
    """Modules that say which windows they take."""

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxUnpool(_Windows):
    def __init__(self, kernel_size: int | tuple[int], stride: int | tuple[int] | None = None,
                 padding: int | tuple[int] = 0) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _tuple(kernel_size, self._dims)
        self.stride = self.kernel_size if stride is None else _tuple(stride, self._dims)
        self.padding = _tuple(padding, self._dims)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return self._unpool(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool1d(_MaxUnpool):
    """The inverse of MaxPool1d, zeros where nothing is known.

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: how many elements are added on both sides.

    Example:
        >>> pooled, where = nn.MaxPool1d(2, return_indices=True)(rl.tensor([[[1.0, 5.0, 2.0,
        ...     4.0]]]))
        >>> nn.MaxUnpool1d(2, stride=2)(pooled, where)
        tensor([[[0., 5., 0., 4.]]])
    """

    _dims, _unpool = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """The inverse of MaxPool2d, zeros where nothing is known.

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: how many elements are added on both sides.

    Example:
        >>> pooled, where = nn.MaxPool2d(2, return_indices=True)(rl.arange(4.0).reshape(1, 1, 2, 2))
        >>> nn.MaxUnpool2d(2, stride=2)(pooled, where)
        tensor([[[[0., 0.],
                  [0., 3.]]]])
    """

    _dims, _unpool = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """The inverse of MaxPool3d, zeros where nothing is known.

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: how many elements are added on both sides.

    Example:
        >>> pooled, where = nn.MaxPool3d(2, return_indices=True)(rl.rand(1, 1, 2, 2, 2))
        >>> nn.MaxUnpool3d(2, stride=2)(pooled, where).shape
        rushlight.Size([1, 1, 2, 2, 2])
    """

    _dims, _unpool = 3, staticmethod(F.max_unpool3d)


class AvgPool1d(_Windows):
    """The average of each window of (N, C, L).

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: zeros on both sides.
        ceil_mode: keep a last window that hangs over the border.
        count_include_pad: let the zeros of the padding count.

    Example:
        >>> nn.AvgPool1d(2, stride=1)(rl.tensor([[[1.0, 5.0, 2.0]]]))
        tensor([[[3.0000, 3.5000]]])
    """

    __constants__ = "kernel_size stride padding ceil_mode count_include_pad".split()

    def __init__(self, kernel_size: int | tuple[int], stride: int | tuple[int] | None = None,
                 padding: int | tuple[int] = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _tuple(kernel_size, 1)
        self.stride = _tuple(stride if stride is not None else kernel_size, 1)
        self.padding = _tuple(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad)  # fmt: skip


class _AvgPool(_Windows):
    __constants__ = """kernel_size stride padding ceil_mode count_include_pad
divisor_override""".split()

    def __init__(self, kernel_size: int | tuple[int, int],
                 stride: int | tuple[int, int] | None = None, padding: int | tuple[int, int] = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                          self.count_include_pad, self.divisor_override)  # fmt: skip


class AvgPool2d(_AvgPool):
    """The average of each window of (N, C, H, W).

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: zeros on both sides.
        ceil_mode: keep a last window that hangs over the border.
        count_include_pad: let the zeros of the padding count.
        divisor_override: divide by this instead of the number of elements.

    Example:
        >>> nn.AvgPool2d(2, divisor_override=1)(rl.ones(1, 1, 4, 4))
        tensor([[[[4., 4.],
                  [4., 4.]]]])
    """

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The average of each window of (N, C, D, H, W).

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        padding: zeros on both sides.
        ceil_mode: keep a last window that hangs over the border.
        count_include_pad: let the zeros of the padding count.
        divisor_override: divide by this instead of the number of elements.

    Example:
        >>> nn.AvgPool3d(2, stride=1)(rl.arange(8.0).reshape(1, 1, 2, 2, 2))
        tensor([[[[[3.5000]]]]])
    """

    _pool = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    __constants__ = "norm_type kernel_size stride ceil_mode".split()

    def __init__(self, norm_type: float, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] | None = None,
                 ceil_mode: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """(sum of x^p)^(1/p) of each window of (N, C, L).

    Arguments:
        norm_type: p.
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        ceil_mode: keep a last window that hangs over the border.

    Example:
        >>> nn.LPPool1d(2, 2, stride=1)(rl.tensor([[[3.0, 4.0]]]))
        tensor([[[5.]]])
    """

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """(sum of x^p)^(1/p) of each window of (N, C, H, W).

    Arguments:
        norm_type: p.
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        ceil_mode: keep a last window that hangs over the border.

    Example:
        >>> nn.LPPool2d(2, (1, 2), stride=1)(rl.tensor([[[[3.0, 4.0]]]]))
        tensor([[[[5.]]]])
    """

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """(sum of x^p)^(1/p) of each window of (N, C, D, H, W).

    Arguments:
        norm_type: p.
        kernel_size: length of the window, one number for all dims or one per dim.
        stride: distance between windows; None is kernel_size.
        ceil_mode: keep a last window that hangs over the border.

    Example:
        >>> nn.LPPool3d(1, 2, stride=1)(rl.ones(1, 1, 2, 2, 2))
        tensor([[[[[8.]]]]])
    """

    _pool = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPool(Module):
    __constants__ = "output_size".split()

    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Averages of output_size windows of (N, C, L).

    Arguments:
        output_size: how many windows.

    Example:
        >>> nn.AdaptiveAvgPool1d(2)(rl.tensor([[[1.0, 5.0, 2.0, 4.0]]]))
        tensor([[[3., 3.]]])
    """

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Averages of output_size windows of (N, C, H, W).

    With output_size=1 it is the mean of each channel, whatever the size of the picture.

    Arguments:
        output_size: (H, W) of the result, or one number for both; None keeps a size.

    Example:
        >>> nn.AdaptiveAvgPool2d(1)(rl.zeros(2, 8, 7, 5)).shape
        rushlight.Size([2, 8, 1, 1])
        >>> nn.AdaptiveAvgPool2d((2, None))(rl.zeros(2, 8, 7, 5)).shape
        rushlight.Size([2, 8, 2, 5])
    """

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Averages of output_size windows of (N, C, D, H, W).

    Arguments:
        output_size: (D, H, W) of the result, or one number for all; None keeps a size.

    Example:
        >>> nn.AdaptiveAvgPool3d(1)(rl.arange(8.0).reshape(1, 1, 2, 2, 2))
        tensor([[[[[3.5000]]]]])
    """

    _pool = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPool(Module):
    __constants__ = "output_size return_indices".split()

    def __init__(
        self, output_size: int | tuple[int | None, ...] | None, return_indices: bool = False
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return self._pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of output_size windows of (N, C, L).

    Arguments:
        output_size: how many windows.
        return_indices: return where the elements were as well.

    Example:
        >>> nn.AdaptiveMaxPool1d(2, return_indices=True)(rl.tensor([[[1.0, 5.0, 2.0, 4.0]]]))
        rushlight.return_types.adaptive_max_pool1d(
        values=tensor([[[5., 4.]]]),
        indices=tensor([[[1, 3]]]))
    """

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of output_size windows of (N, C, H, W).

    Arguments:
        output_size: (H, W) of the result, or one number for both; None keeps a size.
        return_indices: return where the elements were as well.

    Example:
        >>> nn.AdaptiveMaxPool2d((1, 2), return_indices=True)(rl.arange(16.0).reshape(1, 1, 4, 4))
        rushlight.return_types._adaptive_max_pool2d(
        values=tensor([[[[13., 15.]]]]),
        indices=tensor([[[[13, 15]]]]))
    """

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of output_size windows of (N, C, D, H, W).

    Arguments:
        output_size: (D, H, W) of the result, or one number for all; None keeps a size.
        return_indices: return where the elements were as well.

    Example:
        >>> nn.AdaptiveMaxPool3d(1, return_indices=True)(rl.arange(8.0).reshape(1, 1, 2, 2, 2))
        rushlight.return_types._adaptive_max_pool3d(
        values=tensor([[[[[7.]]]]]),
        indices=tensor([[[[[7]]]]]))
    """

    _pool = staticmethod(F.adaptive_max_pool3d)


class _FractionalMaxPool(Module):
    __constants__ = "kernel_size return_indices output_size output_ratio".split()

    def __init__(self, kernel_size: int | tuple[int, int],
                 output_size: int | tuple[int, int] | None = None,
                 output_ratio: float | tuple[float, float] | None = None,
                 return_indices: bool = False, _random_samples: Any = None) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        sizes = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size,)
        if any(k <= 0 for k in sizes):
            raise ValueError(f"{name}: kernel_size must be positive, got {kernel_size}")
        self.kernel_size = _tuple(kernel_size, self._dims)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = _tuple(output_size, self._dims) if output_size is not None else None
        self.output_ratio = _tuple(output_ratio, self._dims) if output_ratio is not None else None
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name}: exactly one of output_size and output_ratio must be given")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1, got {output_ratio}")

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return self._pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest elements of windows of (N, C, H, W) at distances that vary at random.

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        output_size: (H, W) of the result; this or output_ratio is given.
        output_ratio: the size of the result as a part of that of the input.
        return_indices: return where the elements were as well.

    Example:
        >>> nn.FractionalMaxPool2d(2, output_ratio=0.7)(rl.zeros(1, 1, 10, 10)).shape
        rushlight.Size([1, 1, 7, 7])
    """

    _dims = 2
    _pool = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest elements of windows of (N, C, D, H, W) at distances that vary at random.

    Arguments:
        kernel_size: length of the window, one number for all dims or one per dim.
        output_size: (D, H, W) of the result; this or output_ratio is given.
        output_ratio: the size of the result as a part of that of the input.
        return_indices: return where the elements were as well.

    Example:
        >>> nn.FractionalMaxPool3d(2, output_size=3)(rl.zeros(1, 1, 6, 6, 6)).shape
        rushlight.Size([1, 1, 3, 3, 3])
    """

    _dims = 3
    _pool = staticmethod(F.fractional_max_pool3d)
