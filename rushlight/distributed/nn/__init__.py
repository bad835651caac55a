"""Names of torch.distributed.nn: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="RemoteModule",
    functions="all_gather all_reduce",
)
