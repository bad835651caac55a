"""Names of torch.distributed._composable: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    functions="checkpoint contract fully_shard replicate",
)
