"""Names of torch.distributed._composable.fsdp: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.fsdp import CPUOffloadPolicy as CPUOffloadPolicy
from rushlight.distributed.fsdp import FSDPModule as FSDPModule
from rushlight.distributed.fsdp import MixedPrecisionPolicy as MixedPrecisionPolicy
from rushlight.distributed.fsdp import OffloadPolicy as OffloadPolicy
from rushlight.distributed.fsdp import fully_shard as fully_shard

absent(
    globals(),
    WHY,
)
