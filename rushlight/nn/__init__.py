"""Neural networks: modules, their functions, parameters and initialisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight._names.missing import submodule_or_raise
from rushlight.nn import attention as attention
from rushlight.nn import functional as functional
from rushlight.nn import grad as grad
from rushlight.nn import init as init
from rushlight.nn import modules as modules
from rushlight.nn import parameter as parameter
from rushlight.nn import utils as utils
from rushlight.nn.modules import *
from rushlight.nn.parameter import Buffer as Buffer
from rushlight.nn.parameter import Parameter as Parameter


def __getattr__(name: str) -> Any:
    # Lazy modules and parameters are loaded when first asked for, see nn/_uninitialized.py.
    if name in modules._LAZY:
        return getattr(modules, name)
    if name in parameter._LAZY:
        return getattr(parameter, name)
    if name in ("DataParallel", "parallel"):  # rarely used, and they know of devices and processes
        import importlib

        found = importlib.import_module("rushlight.nn.parallel")
        return found if name == "parallel" else getattr(found, name)
    return submodule_or_raise(__name__, name)


def __dir__() -> list[Any]:
    return sorted({*globals(), *modules._LAZY, *parameter._LAZY, "DataParallel", "parallel"})
