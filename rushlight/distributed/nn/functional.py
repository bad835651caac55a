"""Names of torch.distributed.nn.functional: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    functions="all_gather all_reduce all_to_all broadcast reduce reduce_scatter",
)
