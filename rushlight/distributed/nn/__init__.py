"""Collectives that autograd knows."""

from rushlight._names.missing import fill
from rushlight.distributed.nn.functional import *
from rushlight.distributed.nn.functional import __all__ as _names

__all__ = [*_names]

fill(globals())
