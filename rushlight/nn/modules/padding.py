"""Borders around the last dims, as modules."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

_KINDS = "CircularPad ConstantPad ReflectionPad ReplicationPad ZeroPad".split()
__all__ = [f"{kind}{n}d" for kind in _KINDS for n in (1, 2, 3)]


def _widths(padding, dims):
    """One int stands for the same width on all sides."""
    return (padding,) * (2 * dims) if isinstance(padding, int) else tuple(padding)


class _PadNd(Module):
    __constants__: tuple[str, ...] = ("padding",)
    _dims, _mode = 1, "constant"

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = _widths(padding, self._dims)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(Module):
    __constants__: tuple[str, ...] = ("padding", "value")
    _dims = 1

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__()
        self.value = value
        self.padding = _widths(padding, self._dims)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A border of one value around the last dim.

    Arguments:
        padding: width of the border on all sides, or (left, right).
        value: what the border holds.

    Shape: (N, C, L), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ConstantPad1d((1, 1), 9.0)(rl.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[9., 1., 2., 3., 9.]]])
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """A border of one value around the last 2 dims.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom).
        value: what the border holds.

    Shape: (N, C, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ConstantPad2d((1, 0, 1, 0), 9.0)(rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[9., 9., 9.],
                  [9., 1., 2.],
                  [9., 3., 4.]]]])
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """A border of one value around the last 3 dims.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom, front, back).
        value: what the border holds.

    Shape: (N, C, D, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ConstantPad3d(1, 9.0)(rl.zeros(1, 1, 2, 2, 2)).shape
        rushlight.Size([1, 1, 4, 4, 4])
    """

    _dims = 3


class _Zeros(_ConstantPadNd):
    """Makes zero the value of a constant border."""

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_Zeros, ConstantPad1d):
    """A border of zeros around the last dim.

    Arguments:
        padding: width of the border on all sides, or (left, right).

    Shape: (N, C, L), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ZeroPad1d((1, 1))(rl.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[0., 1., 2., 3., 0.]]])
    """


class ZeroPad2d(_Zeros, ConstantPad2d):
    """A border of zeros around the last 2 dims.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom).

    Shape: (N, C, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ZeroPad2d((1, 0, 1, 0))(rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[0., 0., 0.],
                  [0., 1., 2.],
                  [0., 3., 4.]]]])
    """


class ZeroPad3d(_Zeros, ConstantPad3d):
    """A border of zeros around the last 3 dims.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom, front, back).

    Shape: (N, C, D, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ZeroPad3d(1)(rl.zeros(1, 1, 2, 2, 2)).shape
        rushlight.Size([1, 1, 4, 4, 4])
    """


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise ValueError(
                f"expected {self._dims + 1}D or {self._dims + 2}D input, got shape "
                f"{list(input.shape)}"
            )
        return super().forward(input)


class ReflectionPad1d(_ReflectionPadNd):
    """The last dim mirrored at its edges.

    Arguments:
        padding: width of the border on all sides, or (left, right).

    Shape: (N, C, L), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ReflectionPad1d((1, 1))(rl.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[2., 1., 2., 3., 2.]]])
    """

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The last 2 dims mirrored at their edges.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom).

    Shape: (N, C, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ReflectionPad2d((1, 0, 1, 0))(rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[4., 3., 4.],
                  [2., 1., 2.],
                  [4., 3., 4.]]]])
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The last 3 dims mirrored at their edges.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom, front, back).

    Shape: (N, C, D, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ReflectionPad3d(1)(rl.zeros(1, 1, 2, 2, 2)).shape
        rushlight.Size([1, 1, 4, 4, 4])
    """

    _dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """The last dim with its edges repeated.

    Arguments:
        padding: width of the border on all sides, or (left, right).

    Shape: (N, C, L), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ReplicationPad1d((1, 1))(rl.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[1., 1., 2., 3., 3.]]])
    """

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The last 2 dims with their edges repeated.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom).

    Shape: (N, C, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ReplicationPad2d((1, 0, 1, 0))(rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[1., 1., 2.],
                  [1., 1., 2.],
                  [3., 3., 4.]]]])
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The last 3 dims with their edges repeated.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom, front, back).

    Shape: (N, C, D, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.ReplicationPad3d(1)(rl.zeros(1, 1, 2, 2, 2)).shape
        rushlight.Size([1, 1, 4, 4, 4])
    """

    _dims = 3


class CircularPad1d(_CircularPadNd):
    """The last dim continued at its other side.

    Arguments:
        padding: width of the border on all sides, or (left, right).

    Shape: (N, C, L), also without N; each dim grows by its two widths.

    Example:
        >>> nn.CircularPad1d((1, 1))(rl.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 1., 2., 3., 1.]]])
    """

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """The last 2 dims continued at their other sides.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom).

    Shape: (N, C, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.CircularPad2d((1, 0, 1, 0))(rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[4., 3., 4.],
                  [2., 1., 2.],
                  [4., 3., 4.]]]])
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """The last 3 dims continued at their other sides.

    Arguments:
        padding: width of the border on all sides, or (left, right, top, bottom, front, back).

    Shape: (N, C, D, H, W), also without N; each dim grows by its two widths.

    Example:
        >>> nn.CircularPad3d(1)(rl.zeros(1, 1, 2, 2, 2)).shape
        rushlight.Size([1, 1, 4, 4, 4])
    """

    _dims = 3
