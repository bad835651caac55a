"""The Array API standard, 2025.12 and 2024.12, over Rushlight's tensors.

This is what ``__array_namespace__`` returns.

The functions have the standard's names, its ``axis`` and ``keepdims`` spellings and its rules, and
work on ordinary tensors. ``Tensor.size`` stays PyTorch's method; ``prod(x.shape)`` is the number of
elements.
"""

from __future__ import annotations

# ruff: noqa: F401, F403 -- a namespace of names
from math import e, inf, nan, pi
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import (
    Tensor,
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.array_api import _creation, _elementwise, _functions, fft, linalg
from rushlight.array_api._creation import *
from rushlight.array_api._elementwise import *
from rushlight.array_api._functions import *
from rushlight.array_api._info import __array_namespace_info__

__array_api_version__ = "2025.12"
newaxis = None
DTYPES = (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64,
          complex64, complex128)  # fmt: skip

__all__ = sorted(
    [*_creation.__all__, *_elementwise.__all__, *_functions.__all__, "__array_api_version__",
     "__array_namespace_info__", "bool", "complex64", "complex128", "e", "fft", "float32",
     "float64", "inf", "int8", "int16", "int32", "int64", "linalg", "nan", "newaxis", "pi", "uint8",
     "uint16", "uint32", "uint64"]
)  # fmt: skip


def namespace_of(tensor: Tensor, *, api_version: str | None = None) -> _ModuleType:
    """Tensor.__array_namespace__: this module."""
    import sys

    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ValueError(f"__array_namespace__: version {api_version!r} of the Array API standard "
                         "is not supported; 2021.12 to 2025.12 are")  # fmt: skip
    return sys.modules[__name__]


del _C
