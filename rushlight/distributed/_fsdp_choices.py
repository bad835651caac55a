"""The choices of distributed.fsdp that programs name in default arguments."""

from enum import Enum

__all__ = ["BackwardPrefetch", "OptimStateKeyType", "ShardingStrategy", "StateDictType"]

ShardingStrategy = Enum(
    "ShardingStrategy",
    "FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD _HYBRID_SHARD_ZERO2",
    module=__name__,
)
BackwardPrefetch = Enum("BackwardPrefetch", "BACKWARD_PRE BACKWARD_POST", module=__name__)
StateDictType = Enum(
    "StateDictType", "FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT", module=__name__
)
OptimStateKeyType = Enum("OptimStateKeyType", "PARAM_NAME PARAM_ID", module=__name__)
