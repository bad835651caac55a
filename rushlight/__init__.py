"""Rushlight: an imperative deep learning library with PyTorch's programming model."""

# ruff: noqa: E402, I001 -- imports stand in sections, and their order matters

# Keep this file a list of names, by section; code lives in the modules it names.

# The core: dtypes, Tensor, device, Size, Generator, ..., and the operators of the table, but those
# that PyTorch has only elsewhere (the rows' keys `python:`).
try:
    from rushlight import _C
    from rushlight._C import __version__  # (the stubs' folder alone can be imported too)
except ImportError as _error:
    from rushlight._unbuilt import explained as _explained

    raise _explained(_error) from None
from rushlight._C import *


globals().update(_C._unsupported_dtypes)  # qint8, ...: names without tensors


# PyTorch's private names for parts of the core, and the error for those that are not here.
def _core_getattr(name):
    from rushlight._names.core import core_getattr

    return core_getattr(name)


_C.__getattr__ = _core_getattr
_C.__path__ = [__file__.removesuffix("__init__.py") + "_core"]  # modules below torch._C

# Modules that consist of names that are absent, and have no files.
from rushlight._names import import_hook as _import_hook

_import_hook.install()

# The wheels of oneDNN and OpenBLAS lie beside this package, or in the environment's own folder.
import sys as _sys

_C._add_library_folder(
    f"{_sys.prefix}/lib/python{_sys.version_info[0]}.{_sys.version_info[1]}/site-packages"
)

# Methods of Tensor written in Python, and the legacy types FloatTensor, LongTensor, ...
from rushlight import _tensor
from rushlight._tensor.legacy_types import TYPES as _legacy_types
from rushlight.storage import CLASSES as _storage_classes_by_name, TypedStorage

globals().update(_legacy_types)
globals().update(_storage_classes_by_name)

# Functions whose kind of result depends on their arguments.
from rushlight.functional import *
from rushlight._functions.calculus import cumulative_trapezoid, gradient, trapezoid, trapz
from rushlight._functions.quantiles import nanquantile, quantile
from rushlight._functions.windows import (
    bartlett_window,
    blackman_window,
    hamming_window,
    hann_window,
    kaiser_window,
)

# Questions about objects.
from rushlight._functions.questions import (
    is_complex,
    is_floating_point,
    is_signed,
    is_storage,
    is_tensor,
    numel,
    typename,
)

# Settings of the whole process.
from rushlight._functions.settings import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    is_deterministic_algorithms_warn_only_enabled,
    set_default_tensor_type,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    use_deterministic_algorithms,
)

# Printing.
from rushlight._tensor_str import get_printoptions, printoptions, set_printoptions

# Constants.
from math import e, inf, nan, pi

newaxis = None

# Recording, and gradients.
from rushlight.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled

# Saving and loading.
from rushlight.serialization import load, save

# Subpackages that are always there.
from rushlight import autograd, func, linalg, random, return_types, storage, testing
from rushlight import serialization, utils, version
from rushlight.func import vmap


# nn, optim and amp are loaded when first used, and so are functions that few programs call.
def __getattr__(name):
    from rushlight._names.lazy import lazy_getattr

    return lazy_getattr(name)


def __dir__():
    from rushlight._names.lazy import lazy_dir

    return lazy_dir()


# Settings from the environment; without them config is loaded when first used.
import os as _os

if "RUSHLIGHT_CONFIG" in _os.environ:
    from rushlight import config
