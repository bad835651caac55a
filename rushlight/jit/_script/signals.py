"""Windows and Fourier transforms as the compiler reads them: the originals pass functions, options
and lists with holes on."""

from __future__ import annotations

import math
from typing import List  # noqa: UP035

import rushlight
from rushlight import _C
from rushlight.fft import _transforms
from rushlight.linalg import _products, _results

# ruff: noqa: UP006


def _phases(op, window_length, periodic, dtype, device):
    """From 0 to 1, in double; a periodic window leaves the last one out."""
    if window_length < 0:
        raise RuntimeError(f"{op}: window_length must not be negative, got {window_length}")
    if dtype is not None:
        if not dtype.is_floating_point:
            raise _C.DTypeError(f"{op}: needs a floating dtype, got {dtype}")
    last = window_length if periodic else window_length - 1
    return _C.arange(window_length, dtype=_C.float64, device=device) / max(last, 1)


def _rounded(window, dtype, requires_grad):
    """One sample alone is 1."""
    if window.size(0) == 1:
        window = _C.ones_like(window)
    window = window.to(_C.get_default_dtype() if dtype is None else dtype)
    return window.requires_grad_() if requires_grad else window


def _hann(window_length, periodic=True, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False):  # fmt: skip
    phases = _phases("hann_window", window_length, periodic, dtype, device)
    return _rounded(0.5 - 0.5 * (2 * math.pi * phases).cos(), dtype, requires_grad)


def _hamming(window_length, periodic=True, alpha=0.54, beta=0.46, dtype=None, layout=None,
             device=None, pin_memory=False, requires_grad=False):  # fmt: skip
    phases = _phases("hamming_window", window_length, periodic, dtype, device)
    return _rounded(alpha - beta * (2 * math.pi * phases).cos(), dtype, requires_grad)


def _blackman(window_length, periodic=True, dtype=None, layout=None, device=None, pin_memory=False,
              requires_grad=False):  # fmt: skip
    phases = _phases("blackman_window", window_length, periodic, dtype, device)
    once, twice = (2 * math.pi * phases).cos(), (4 * math.pi * phases).cos()
    return _rounded(0.42 - 0.5 * once + 0.08 * twice, dtype, requires_grad)


def _bartlett(window_length, periodic=True, dtype=None, layout=None, device=None, pin_memory=False,
              requires_grad=False):  # fmt: skip
    phases = _phases("bartlett_window", window_length, periodic, dtype, device)
    return _rounded(1 - (2 * phases - 1).abs(), dtype, requires_grad)


def _as_complex(op, x):
    if x.is_complex():
        return x
    if x.dtype == _C.float16 or x.dtype == _C.bfloat16:
        raise _C.DTypeError(f"{op}: not implemented for {x.dtype}: convert with .float()")
    return x.to(_C.complex128 if x.dtype == _C.float64 else _C.complex64)


def _as_real(op, x):
    if x.is_complex():
        raise _C.DTypeError(f"{op}: needs real numbers, got {x.dtype}")
    if x.dtype == _C.float16 or x.dtype == _C.bfloat16:
        raise _C.DTypeError(f"{op}: not implemented for {x.dtype}: convert with .float()")
    return x if x.is_floating_point() else x.to(_C.get_default_dtype())


def _dims(op, x, s, dim, default):
    if dim is None:
        dim = default
    if dim is None:
        count = x.dim() if s is None else len(s)
        if count > x.dim():
            raise RuntimeError(f"{op}: s has {count} sizes for {x.dim()} dimensions")
        return [d for d in range(x.dim() - count, x.dim())]  # noqa: C416
    found: List[int] = []
    for d in [dim] if isinstance(dim, int) else dim:
        if d < -x.dim() or d >= x.dim():
            last = max(x.dim() - 1, 0)
            raise IndexError(f"{op}: dim {d} is out of range (from {-last - 1} to {last})")
        found.append(d % x.dim())
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"{op}: dims must be unique, got {found}")
    if s is not None:
        if len(s) != len(found):
            raise RuntimeError(f"{op}: s has {len(s)} sizes for {len(found)} dims")
    return found


def _resized(op, x, d, n):
    """Cut, or filled up with zeros, to n along a dim; -1: as it is."""
    if n == -1 or n == x.size(d):
        return x
    if n < 1:
        raise RuntimeError(f"{op}: a size must be at least 1, got {n}")
    if n < x.size(d):
        return x.narrow(d, 0, n)
    pad = [0] * (2 * x.dim())
    pad[2 * (x.dim() - 1 - d) + 1] = n - x.size(d)
    return _C.constant_pad_nd(x, pad)


def _all_resized(op, x, dims, s):
    if s is not None:
        for k in range(len(dims)):
            x = _resized(op, x, dims[k], s[k])
    return x


def _count(op, x, dims):
    count = 1
    for d in dims:
        if x.size(d) < 1:
            raise RuntimeError(f"{op}: needs at least one element along dim {d}, got shape "
                               f"{list(x.shape)}")  # fmt: skip
        count *= x.size(d)
    return count


def _c2c(op, x, s, dim, norm, forward, out, default=None):
    x = _as_complex(op, x)
    dims = _dims(op, x, s, dim, default)
    x = _all_resized(op, x, dims, s)
    scale = _transforms._scale(op, norm, _count(op, x, dims), forward)
    return _C._fft_c2c(x, dims, scale, forward)


def _r2c(op, x, s, dim, norm, forward, out, default=None):
    x = _as_real(op, x)
    dims = _dims(op, x, s, dim, default)
    x = _all_resized(op, x, dims, s)
    scale = _transforms._scale(op, norm, _count(op, x, dims), forward)
    result = _C._fft_r2c(x, dims, scale)
    return result if forward else result.conj()


def _c2r(op, x, s, dim, norm, forward, out, default=None):
    x = _as_complex(op, x)
    dims = _dims(op, x, s, dim, default)
    end = dims[-1]
    last = 2 * (x.size(end) - 1)
    if s is not None:
        last = last if s[-1] == -1 else s[-1]
        for k in range(len(dims) - 1):
            x = _resized(op, x, dims[k], s[k])
    if last < 1:
        raise RuntimeError(f"{op}: the result would have {last} elements along dim {end}; pass its "
                           "size")  # fmt: skip
    x = _resized(op, x, end, last // 2 + 1)
    count = _count(op, x, dims) // x.size(end) * last
    x = x.conj() if forward else x
    return _C._fft_c2r(x, dims, _transforms._scale(op, norm, count, forward), last)


def _tracked(*tensors):
    """Programs have no forward mode of their own."""
    if not _C.is_grad_enabled():
        return False
    return any(t.requires_grad for t in tensors)


def _whole_power(n):
    return n


FUNCTIONS = {
    _results.tracked: _tracked,
    _products._whole_power: _whole_power,
    _transforms._c2c: _c2c,
    _transforms._r2c: _r2c,
    _transforms._c2r: _c2r,
    rushlight.hann_window: _hann,
    rushlight.hamming_window: _hamming,
    rushlight.blackman_window: _blackman,
    rushlight.bartlett_window: _bartlett,
}
