"""Names of torch.distributed.fsdp: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.fsdp._enums import BackwardPrefetch as BackwardPrefetch
from rushlight.distributed.fsdp._enums import OptimStateKeyType as OptimStateKeyType
from rushlight.distributed.fsdp._enums import ShardingStrategy as ShardingStrategy
from rushlight.distributed.fsdp._enums import StateDictType as StateDictType

absent(
    globals(),
    WHY,
    classes="""CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig FullStateDictConfig
    FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig
    MixedPrecision MixedPrecisionPolicy OffloadPolicy OptimStateDictConfig
    ShardedOptimStateDictConfig ShardedStateDictConfig StateDictConfig StateDictSettings
    UnshardHandle""",
    functions="fully_shard register_fsdp_forward_method",
)
