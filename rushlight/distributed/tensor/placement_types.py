"""Names of torch.distributed.tensor.placement_types: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.tensor import Partial as Partial
from rushlight.distributed.tensor import Placement as Placement
from rushlight.distributed.tensor import Replicate as Replicate
from rushlight.distributed.tensor import Shard as Shard

absent(
    globals(),
    WHY,
)
