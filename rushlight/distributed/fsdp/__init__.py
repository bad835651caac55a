"""Modules whose parameters are cut over the ranks, and whole while they compute: `fully_shard`, and
FullyShardedDataParallel, the same as a wrapper."""

from rushlight._names.missing import fill
from rushlight.distributed.fsdp import api
from rushlight.distributed.fsdp._fully_shard import (
    FSDPModule,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
)
from rushlight.distributed.fsdp._policies import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
)
from rushlight.distributed.fsdp.api import *
from rushlight.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [
    *api.__all__,
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullyShardedDataParallel",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
]

fill(globals())
