"""Names of torch.distributed.tensor.experimental: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    functions="context_parallel implicit_replication local_map",
)
