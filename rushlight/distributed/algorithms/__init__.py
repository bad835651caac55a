"""Ways to train together: hooks of DistributedDataParallel, and ranks with unequal inputs."""

from rushlight._names.missing import fill
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]

fill(globals())
