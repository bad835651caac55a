"""Signal processing: windows, symmetric ones by default."""

from __future__ import annotations

from collections.abc import Iterable
from math import pi
from types import SimpleNamespace

from rushlight import _C
from rushlight._C import Tensor, layout
from rushlight._names.missing import names_missing_from
from rushlight._names.publish import public as _public
from rushlight.types import Device, _dtype


def _window(op, M, sym, shape, dtype=None, layout=None, device=None, requires_grad=False):
    """shape(k, n) at the points k = 0 ... M - 1 of n + 1; one that is not symmetric leaves the last
    one out."""
    if layout is not None and layout != _C.strided:
        raise ValueError(f"{op}: windows are strided tensors, got layout {layout}")
    if M < 0:
        raise ValueError(f"{op}: M must not be negative, got {M}")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point or dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{op}: needs float32 or float64, got {dtype}")
    if M <= 1:
        return _C.ones(M, dtype=dtype, device=device, requires_grad=requires_grad)
    # Samples are computed in double and rounded once.
    k = _C.arange(M, dtype=_C.float64, device=device)
    return shape(k, M - 1 if sym else M).to(dtype).requires_grad_(requires_grad)


def exponential(M: int, *, center: bool | None = None, tau: float = 1.0, sym: bool = True,
                dtype: _dtype | None = None, layout: layout | None = None, device: Device = None,
                requires_grad: bool = False) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau).

    Arguments:
        M: how many points.
        center: where the middle is; only with sym=False.
        tau: how slowly it falls.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.exponential(3, tau=2.0)
        tensor([0.6065, 1.0000, 0.6065])
    """
    if tau <= 0:
        raise ValueError(f"signal.windows.exponential: tau must be positive, got {tau}")
    if sym and center is not None:
        raise ValueError("signal.windows.exponential: center needs sym=False")

    def shape(k, n):
        return (-(k - (n / 2 if center is None else center)).abs() / tau).exp()

    return _window("signal.windows.exponential", M, sym, shape, dtype, layout, device,
                   requires_grad)  # fmt: skip


def cosine(M: int, *, sym: bool = True, dtype: _dtype | None = None, layout: layout | None = None,
           device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Half a period of a sine.

    Arguments:
        M: how many points.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.cosine(3, sym=False)
        tensor([0.3827, 0.9239, 0.9239])
    """
    return _window("signal.windows.cosine", M, sym, lambda k, n: (pi * (k + 0.5) / (n + 1)).sin(),
                   dtype, layout, device, requires_grad)  # fmt: skip


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: _dtype | None = None,
             layout: layout | None = None, device: Device = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """exp(-(k - middle)^2 / (2 std^2)).

    Arguments:
        M: how many points.
        std: the standard deviation, in points.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.gaussian(3, std=0.5)
        tensor([0.1353, 1.0000, 0.1353])
    """
    if std <= 0:
        raise ValueError(f"signal.windows.gaussian: std must be positive, got {std}")
    return _window("signal.windows.gaussian", M, sym,
                   lambda k, n: (-0.5 * ((k - n / 2) / std).square()).exp(),
                   dtype, layout, device, requires_grad)  # fmt: skip


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: _dtype | None = None,
           layout: layout | None = None, device: Device = None,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A ratio of Bessel functions.

    Arguments:
        M: how many points.
        beta: how narrow it is.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.kaiser(3, beta=2.0)
        tensor([0.4387, 1.0000, 0.4387])
    """
    if beta < 0:
        raise ValueError(f"signal.windows.kaiser: beta must not be negative, got {beta}")

    def shape(k, n):
        at = 2 * k / n - 1
        top = _C.i0(beta * (1 - at * at).clamp(min=0).sqrt())
        return top / _C.i0(_C.full((), float(beta), dtype=_C.float64, device=k.device))

    return _window("signal.windows.kaiser", M, sym, shape, dtype, layout, device, requires_grad)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, dtype: _dtype | None = None,
                   layout: layout | None = None, device: Device = None,
                   requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The sum of (-1)^i a[i] cos(2 pi i k / n).

    Arguments:
        M: how many points.
        a: the factors.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.general_cosine(3, a=[0.6, 0.4], sym=True)
        tensor([0.2000, 1.0000, 0.2000])
    """
    if not isinstance(a, tuple | list):
        raise TypeError(f"signal.windows.general_cosine: a must be a list, got {type(a).__name__}")
    if not a:
        raise ValueError("signal.windows.general_cosine: a must not be empty")

    def shape(k, n):
        terms = [(-1) ** i * c * (2 * pi * i * k / n).cos() for i, c in enumerate(a)]
        return sum(terms[1:], terms[0])

    return _window("signal.windows.general_cosine", M, sym, shape, dtype, layout, device,
                   requires_grad)  # fmt: skip


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: _dtype | None = None,
                    layout: layout | None = None, device: Device = None,
                    requires_grad: bool = False) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi k / n).

    Arguments:
        M: how many points.
        alpha: the constant part; the cosine gets the rest.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.general_hamming(3, alpha=0.6)
        tensor([0.2000, 1.0000, 0.2000])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout,
                          device=device, requires_grad=requires_grad)  # fmt: skip


def hamming(M: int, *, sym: bool = True, dtype: _dtype | None = None, layout: layout | None = None,
            device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Hamming's window.

    Arguments:
        M: how many points.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.hamming(4, sym=False)
        tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device,
                           requires_grad=requires_grad)  # fmt: skip


def hann(M: int, *, sym: bool = True, dtype: _dtype | None = None, layout: layout | None = None,
         device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Hann's window, a squared sine.

    Arguments:
        M: how many points.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.hann(4, sym=False)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device,
                           requires_grad=requires_grad)  # fmt: skip


def blackman(M: int, *, sym: bool = True, dtype: _dtype | None = None, layout: layout | None = None,
             device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Blackman's window.

    Arguments:
        M: how many points.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.blackman(4, sym=False)[1:]
        tensor([0.3400, 1.0000, 0.3400])
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout,
                          device=device, requires_grad=requires_grad)  # fmt: skip


def nuttall(M: int, *, sym: bool = True, dtype: _dtype | None = None, layout: layout | None = None,
            device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Nuttall's window of four terms.

    Arguments:
        M: how many points.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.nuttall(4, sym=False)
        tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01])
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype,
                          layout=layout, device=device, requires_grad=requires_grad)  # fmt: skip


def bartlett(M: int, *, sym: bool = True, dtype: _dtype | None = None, layout: layout | None = None,
             device: Device = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Bartlett's window, a triangle.

    Arguments:
        M: how many points.
        sym: symmetric; False leaves the last point out, for spectra.
        dtype: float32 or float64; None is the default one.
        layout: only strided.
        device: where the window lies.
        requires_grad: record what is done with it.

    Example:
        >>> rl.signal.windows.bartlett(4, sym=False)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("signal.windows.bartlett", M, sym, lambda k, n: 1 - (2 * k / n - 1).abs(),
                   dtype, layout, device, requires_grad)  # fmt: skip


_WINDOWS = (bartlett, blackman, cosine, exponential, gaussian, general_cosine, general_hamming,
            hamming, hann, kaiser, nuttall)  # fmt: skip
windows = SimpleNamespace(
    **{f.__name__: _public(f"signal.windows.{f.__name__}", f) for f in _WINDOWS}
)
__getattr__ = names_missing_from(__name__)
