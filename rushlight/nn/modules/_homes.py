"""Classes say that they live where PyTorch has them, so that pickled modules can be exchanged.

A file is named for what it holds here; what a class calls its module is part of the file format.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

_ELSEWHERE = {
    "batchnorm": ("LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d", "lazy_modules"),
    "conv": (
        "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
        "LazyConvTranspose3d",
        "lazy_conv",
    ),
    "container": ("ParameterDict ParameterList", "parameter_container"),
    "instancenorm": ("LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d", "lazy_modules"),
    "linear": ("LazyLinear", "lazy_modules"),
}


def live_in(home: Any, *classes: Any) -> None:
    """The classes are found in rushlight.nn.modules.<home> by those who unpickle them."""
    for cls in classes:
        cls.__module__ = f"rushlight.nn.modules.{home}"


def getattr_of(module: str) -> Callable[[str], Any]:
    """The module's __getattr__: PyTorch's classes of that place that lie in another file here."""
    names, source = _ELSEWHERE[module.rpartition(".")[2]]

    def __getattr__(name):
        if name in names.split():
            found = getattr(importlib.import_module(f"rushlight.nn.modules.{source}"), name)
            setattr(sys.modules[module], name, found)
            return found
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
