"""Names of torch.distributed.algorithms.join: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="Join Joinable JoinHook",
)
