"""Calls of functions on other workers (docs/rpc.md)."""

from rushlight._names.missing import fill
from rushlight.distributed.rpc import api, functions, options
from rushlight.distributed.rpc._rref import RRef
from rushlight.distributed.rpc._worker import WorkerInfo
from rushlight.distributed.rpc.api import *
from rushlight.distributed.rpc.options import *

__all__ = [*api.__all__, *options.__all__, "RRef", "WorkerInfo", "functions"]


def is_available() -> bool:
    """Whether calls between workers are possible: simulated ranks always can."""
    return True


fill(globals())
