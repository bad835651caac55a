"""fully_shard: modules whose parameters are cut over the ranks, and whole while they compute."""

from rushlight._names.missing import fill
from rushlight.distributed.fsdp._fully_shard import FSDPModule, fully_shard
from rushlight.distributed.fsdp._policies import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
)

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "fully_shard",
]

fill(globals())
