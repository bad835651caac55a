"""Fourier transforms against NumPy; lengths with small factors, primes and large primes."""

import numpy as np

from ops.sample import C, OpSample, T


def one(name, ref, *calls, **kw):
    def f(x, n=None, dim=-1, norm=None):
        return ref(x, n, dim, norm)

    return OpSample(name, f, list(calls), slack=40, **kw)


def of_real(f):
    """Of integers the reference gets complex numbers, since complex ones come out."""
    return lambda x, *args: f(np.real(x), *args)


def several(name, ref, default, *calls, **kw):
    def f(x, s=None, dim=default, norm=None):
        return ref(x, s, dim, norm)

    return OpSample(name, f, list(calls), slack=80, **kw)


def hfftn(x, s=None, axes=None, norm=None):
    axes = tuple(range(x.ndim)) if axes is None else tuple(axes)
    if s is not None and axes == tuple(range(x.ndim)):
        axes = axes[-len(s) :]
    sizes = [x.shape[a] for a in axes] if s is None else list(s)
    last = 2 * (x.shape[axes[-1]] - 1) if s is None else s[-1]
    for a, n in zip(axes[:-1], sizes[:-1], strict=True):
        x = np.fft.fft(x, n, a, norm)
    return np.fft.hfft(x, last, axes[-1], norm)


def ihfftn(x, s=None, axes=None, norm=None):
    axes = tuple(range(x.ndim)) if axes is None else tuple(axes)
    if s is not None and axes == tuple(range(x.ndim)):
        axes = axes[-len(s) :]
    sizes = [x.shape[a] for a in axes] if s is None else list(s)
    x = np.fft.ihfft(x, sizes[-1], axes[-1], norm)
    for a, n in zip(axes[:-1], sizes[:-1], strict=True):
        x = np.fft.ifft(x, n, a, norm)
    return x


ONE = [C(T(8)), C(T(3, 5)), C(T(6, 4), dim=0), C(T(2, 3, 4), dim=1), C(T(7), n=4), C(T(5), n=9),
       C(T(12), norm="ortho"), C(T(12), norm="forward"), C(T(2, 53)), C(T(1, 1), n=1),
       C(T(0, 4)), C(T(2, 60))]  # fmt: skip
# numbers of elements are even by default: a length is given for odd ones
HALF = [C(T(5)), C(T(3, 4)), C(T(4, 3), dim=0), C(T(5), n=7), C(T(5), n=6), C(T(3), n=9),
        C(T(5), norm="ortho"), C(T(5), norm="forward"), C(T(2, 27), n=53), C(T(1), n=1),
        C(T(0, 4))]  # fmt: skip
TWO = [C(T(4, 6)), C(T(2, 3, 5)), C(T(4, 6), s=(3, 8)), C(T(3, 4, 2), dim=(0, 1)),
       C(T(4, 6), norm="ortho"), C(T(4, 6), norm="forward")]  # fmt: skip
MANY = [C(T(4, 6)), C(T(2, 3, 4)), C(T(2, 3, 4), dim=(1,)), C(T(2, 3, 4), dim=(2, 0)),
        C(T(2, 3, 4), s=(4, 4)), C(T(4, 6), norm="ortho")]  # fmt: skip
TWO_HALF = [C(T(4, 4)), C(T(2, 3, 3)), C(T(4, 4), s=(3, 8)), C(T(3, 4, 2), dim=(0, 1)),
            C(T(4, 4), norm="ortho"), C(T(4, 4), norm="forward")]  # fmt: skip
MANY_HALF = [C(T(4, 4)), C(T(2, 3, 4)), C(T(2, 3, 4), dim=(1,)), C(T(2, 3, 4), s=(4, 5)),
             C(T(4, 4), norm="ortho")]  # fmt: skip


def freq(f):
    return lambda n, d=1.0: f(n, d)


ROWS = [
    one("fft.fft", np.fft.fft, *ONE),
    one("fft.ifft", np.fft.ifft, *ONE),
    one("fft.rfft", of_real(np.fft.rfft), *ONE),
    one("fft.irfft", np.fft.irfft, *HALF),
    one("fft.hfft", np.fft.hfft, *HALF),
    one("fft.ihfft", of_real(np.fft.ihfft), *ONE),
    several("fft.fft2", np.fft.fft2, (-2, -1), *TWO),
    several("fft.ifft2", np.fft.ifft2, (-2, -1), *TWO),
    several("fft.rfft2", of_real(np.fft.rfft2), (-2, -1), *TWO),
    several("fft.irfft2", np.fft.irfft2, (-2, -1), *TWO_HALF),
    several("fft.hfft2", hfftn, (-2, -1), *TWO_HALF),
    several("fft.ihfft2", of_real(ihfftn), (-2, -1), *TWO),
    several("fft.fftn", np.fft.fftn, None, *MANY),
    several("fft.ifftn", np.fft.ifftn, None, *MANY),
    several("fft.rfftn", of_real(np.fft.rfftn), None, *MANY),
    several("fft.irfftn", np.fft.irfftn, None, *MANY_HALF),
    several("fft.hfftn", hfftn, None, *MANY_HALF),
    several("fft.ihfftn", of_real(ihfftn), None, *MANY),
    OpSample("fft.fftshift", lambda x, dim=None: np.fft.fftshift(x, dim),
             [C(T(5)), C(T(4, 3)), C(T(4, 3), dim=1), C(T(2, 3, 4), dim=(0, 2)), C(T(0))]),
    OpSample("fft.ifftshift", lambda x, dim=None: np.fft.ifftshift(x, dim),
             [C(T(5)), C(T(4, 3)), C(T(4, 3), dim=1), C(T(2, 3, 4), dim=(0, 2))]),
]  # fmt: skip
