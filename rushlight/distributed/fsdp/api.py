"""Names of torch.distributed.fsdp.api: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.fsdp import *  # noqa: F403
from rushlight.distributed.fsdp import BackwardPrefetch as BackwardPrefetch
from rushlight.distributed.fsdp import ShardingStrategy as ShardingStrategy
from rushlight.distributed.fsdp import StateDictType as StateDictType

absent(
    globals(),
    WHY,
)
