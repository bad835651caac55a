"""Switches of the libraries under PyTorch. Programs set them; here they are kept and change
nothing, since the hardware or the library that they speak of is not there."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight._names.missing import names_missing_from
from rushlight.backends import cpu as cpu
from rushlight.backends import cuda as cuda
from rushlight.backends import cudnn as cudnn
from rushlight.backends import mkl as mkl
from rushlight.backends import mkldnn as mkldnn
from rushlight.backends import mps as mps
from rushlight.backends import openmp as openmp
from rushlight.backends import opt_einsum as opt_einsum
from rushlight.backends import quantized as quantized

fp32_precision = "none"

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]


def disable_global_flags() -> None:
    """Leaves only the context managers to change the switches; there is nothing to lock here."""


@contextmanager
def __allow_nonbracketed_mutation():
    yield


__getattr__ = names_missing_from(__name__)
