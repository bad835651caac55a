"""The standard's Fourier transforms: rushlight.fft with `axis` and `axes`."""

# ruff: noqa: F822 -- the transforms are made in a loop

from rushlight import fft as _fft

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfftn", "rfft", "rfftfreq", "rfftn"]  # fmt: skip


def _one(name):
    f = getattr(_fft, name)

    def transform(x, /, *, n=None, axis=-1, norm="backward"):
        return f(x, n, axis, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f.__doc__
    return transform


def _several(name):
    f = getattr(_fft, name)

    def transform(x, /, *, s=None, axes=None, norm="backward"):
        return f(x, s, axes, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f.__doc__
    return transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    globals()[_name] = _one(_name)
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    globals()[_name] = _several(_name)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of fft."""
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of rfft."""
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x, /, *, axes=None):
    """Frequency zero moved to the middle."""
    return _fft.fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    """Undoes fftshift."""
    return _fft.ifftshift(x, axes)
