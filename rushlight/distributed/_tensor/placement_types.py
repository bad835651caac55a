"""Names of torch.distributed._tensor.placement_types: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.tensor import *  # noqa: F403

absent(
    globals(),
    WHY,
)
