"""Fourier transforms of real and complex tensors, in one or more dims."""

# ruff: noqa: F403 -- the op table says which transforms there are

from rushlight._C import Tensor  # PyTorch's module has it too
from rushlight._names.missing import names_missing_from
from rushlight._names.publish import publish
from rushlight._places.fft import *
from rushlight._places.fft import __all__ as _over_ops
from rushlight.fft._frequencies import fftfreq, fftshift, ifftshift, rfftfreq

__all__ = [*_over_ops, "Tensor", "fftfreq", "fftshift", "ifftshift", "rfftfreq"]

__getattr__ = names_missing_from(__name__)

publish(globals(), "fft", __all__)
