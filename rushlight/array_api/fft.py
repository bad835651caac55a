"""The standard's Fourier transforms: rushlight.fft with `axis` and `axes`."""

from __future__ import annotations

from collections.abc import Sequence

# ruff: noqa: F822 -- the transforms are made in a loop
from rushlight import fft as _fft
from rushlight._C import Tensor
from rushlight.types import Device, _dtype

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfftn", "rfft", "rfftfreq", "rfftn"]  # fmt: skip


def _one(name):
    f = getattr(_fft, name)

    def transform(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return f(x, n, axis, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f.__doc__
    return transform


def _several(name):
    f = getattr(_fft, name)

    def transform(x: Tensor, /, *, s: Sequence[int] | None = None,
                  axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:  # fmt: skip
        return f(x, s, axes, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f.__doc__
    return transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    globals()[_name] = _one(_name)
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    globals()[_name] = _several(_name)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: _dtype | None = None, device: Device = None
) -> Tensor:
    """The frequencies of fft."""
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: _dtype | None = None, device: Device = None
) -> Tensor:
    """The frequencies of rfft."""
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Sequence[int] | None = None) -> Tensor:
    """Frequency zero moved to the middle."""
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Sequence[int] | None = None) -> Tensor:
    """Undoes fftshift."""
    return _fft.ifftshift(x, axes)
