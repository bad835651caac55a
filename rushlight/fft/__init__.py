"""Fourier transforms of real and complex tensors, in one or more dims."""

from rushlight._C import Tensor  # PyTorch's module has it too
from rushlight._names.missing import names_missing_from
from rushlight._names.publish import publish
from rushlight.fft._frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from rushlight.fft._transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "Tensor",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]  # fmt: skip

__getattr__ = names_missing_from(__name__)

publish(globals(), "fft", __all__)
