"""Tensor parallelism: layers whose weights are cut over the ranks of a mesh."""

from rushlight._names.missing import fill
from rushlight.distributed.tensor.parallel.loss import loss_parallel
from rushlight.distributed.tensor.parallel.style import *
from rushlight.distributed.tensor.parallel.style import __all__ as _names

__all__ = ["loss_parallel", *_names]

fill(globals())
