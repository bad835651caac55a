"""Windows for signal processing."""

from __future__ import annotations

from math import pi

from rushlight import _C
from rushlight._C import Tensor
from rushlight._names.publish import publish
from rushlight.types import Device, _dtype, _layout


def _check_floating(op, dtype):
    if not (dtype.is_floating_point or dtype.is_complex):
        raise _C.DTypeError(f"{op}: needs a floating dtype, got {dtype}")


def _window(op, length, periodic, shape, dtype, layout, device, pin_memory, requires_grad):
    """Samples of shape(phase) for phases from 0 to 1; a periodic window leaves the last one out."""
    if isinstance(length, float | bool):
        raise TypeError(f"{op}: window_length must be int, not {type(length).__name__}")
    if length < 0:
        raise RuntimeError(f"{op}: window_length must not be negative, got {length}")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    _check_floating(op, dtype)
    options = {"dtype": dtype, "layout": layout, "device": device, "pin_memory": pin_memory}
    if length <= 1:
        return _C.ones(length, **options, requires_grad=requires_grad)
    # Samples are computed in double and rounded once.
    wide = {**options, "dtype": _C.float64}
    phase = _C.arange(length, **wide) / (length if periodic else length - 1)
    return shape(phase).to(dtype).requires_grad_(requires_grad)


def hann_window(window_length: int, periodic: bool = True, *, dtype: _dtype | None = None,
                layout: _layout | None = None, device: Device = None, pin_memory: bool = False,
                requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Hann's window, half a period of a squared sine.

    Arguments:
        window_length: how many numbers.
        periodic: for spectra: the first number of the next period is left out. False is
            symmetric, for filters.
        dtype, layout, device, pin_memory, requires_grad: of the result, as for empty.

    Example:
        >>> rl.hann_window(4), rl.hann_window(5, periodic=False)
        (tensor([0.0000, 0.5000, 1.0000, 0.5000]), tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000]))
    """
    return _window("hann_window", window_length, periodic, lambda t: 0.5 - 0.5 * (2 * pi * t).cos(),
                   dtype, layout, device, pin_memory, requires_grad)  # fmt: skip


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54,
                   beta: float = 0.46, *, dtype: _dtype | None = None,
                   layout: _layout | None = None, device: Device = None, pin_memory: bool = False,
                   requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Hamming's window, alpha - beta * cos(2 pi t).

    Arguments:
        window_length: how many numbers.
        periodic: see hann_window.
        alpha, beta: as in the formula.
        dtype, layout, device, pin_memory, requires_grad: of the result, as for empty.

    Example:
        >>> rl.hamming_window(4, periodic=False)
        tensor([0.0800, 0.7700, 0.7700, 0.0800])
    """
    return _window("hamming_window", window_length, periodic,
                   lambda t: alpha - beta * (2 * pi * t).cos(),
                   dtype, layout, device, pin_memory, requires_grad)  # fmt: skip


def blackman_window(window_length: int, periodic: bool = True, *, dtype: _dtype | None = None,
                    layout: _layout | None = None, device: Device = None, pin_memory: bool = False,
                    requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Blackman's window, a sum of two cosines.

    Arguments:
        window_length: how many numbers.
        periodic: see hann_window.
        dtype, layout, device, pin_memory, requires_grad: of the result, as for empty.

    Example:
        >>> rl.blackman_window(5, periodic=False).abs()
        tensor([1.3878e-17, 3.4000e-01, 1.0000e+00, 3.4000e-01, 1.3878e-17])
    """
    return _window("blackman_window", window_length, periodic,
                   lambda t: 0.42 - 0.5 * (2 * pi * t).cos() + 0.08 * (4 * pi * t).cos(),
                   dtype, layout, device, pin_memory, requires_grad)  # fmt: skip


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: _dtype | None = None,
                    layout: _layout | None = None, device: Device = None, pin_memory: bool = False,
                    requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Bartlett's window, a triangle.

    Arguments:
        window_length: how many numbers.
        periodic: see hann_window.
        dtype, layout, device, pin_memory, requires_grad: of the result, as for empty.

    Example:
        >>> rl.bartlett_window(5, periodic=False)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett_window", window_length, periodic, lambda t: 1 - (2 * t - 1).abs(),
                   dtype, layout, device, pin_memory, requires_grad)  # fmt: skip


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *,
                  dtype: _dtype | None = None, layout: _layout | None = None, device: Device = None,
                  pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Kaiser's window: a ratio of Bessel functions.

    Arguments:
        window_length: how many numbers.
        periodic: see hann_window.
        beta: how narrow it is.
        dtype, layout, device, pin_memory, requires_grad: of the result, as for empty.

    Example:
        >>> rl.kaiser_window(3, periodic=False, beta=2.0)
        tensor([0.4387, 1.0000, 0.4387])
    """
    n = window_length + (1 if periodic else 0)
    dtype = _C.get_default_dtype() if dtype is None else dtype
    _check_floating("kaiser_window", dtype)
    if window_length <= 1:
        return _C.ones(window_length, dtype=dtype, device=device, requires_grad=requires_grad)
    at = _C.linspace(-1, 1, n, dtype=_C.float64, device=device)
    shape = _C.i0(beta * (1 - at * at).clamp(min=0).sqrt()) / _C.i0(
        _C.tensor(float(beta), dtype=_C.float64)
    )
    window = shape[:window_length].to(dtype)
    return window.requires_grad_(requires_grad)


publish(globals(), "", ["bartlett_window", "blackman_window", "hamming_window", "hann_window"])
