"""All modules, one topic per file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight._names.missing import submodule_or_raise
from rushlight.nn.modules.activation import *
from rushlight.nn.modules.adaptive import *
from rushlight.nn.modules.batchnorm import *
from rushlight.nn.modules.container import *
from rushlight.nn.modules.conv import *
from rushlight.nn.modules.distance import *
from rushlight.nn.modules.dropout import *
from rushlight.nn.modules.flatten import *
from rushlight.nn.modules.instancenorm import *
from rushlight.nn.modules.linear import *
from rushlight.nn.modules.linear_cross_entropy_options import (
    LinearCrossEntropyOptions as LinearCrossEntropyOptions,
)
from rushlight.nn.modules.loss import *
from rushlight.nn.modules.module import Module as Module
from rushlight.nn.modules.normalization import *
from rushlight.nn.modules.padding import *
from rushlight.nn.modules.pooling import *
from rushlight.nn.modules.rearrange import *
from rushlight.nn.modules.rnn import *
from rushlight.nn.modules.sparse import *
from rushlight.nn.modules.sync_batchnorm import *
from rushlight.nn.modules.transformer import *
from rushlight.nn.modules.vision import *

_LAZY_CONV = """LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
LazyConvTranspose3d""".split()
_LAZY = (
    """LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d
LazyInstanceNorm3d LazyLinear""".split()
    + _LAZY_CONV
)

__all__ = [name for name, value in globals().items()
           if isinstance(value, type) and issubclass(value, Module)]  # fmt: skip
__all__.append("LinearCrossEntropyOptions")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        return submodule_or_raise(__name__, name)
    from rushlight.nn.modules import lazy_conv, lazy_modules

    return getattr(lazy_conv if name in _LAZY_CONV else lazy_modules, name)
