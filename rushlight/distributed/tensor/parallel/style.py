"""Names of torch.distributed.tensor.parallel.style: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.tensor.parallel import *  # noqa: F403

absent(
    globals(),
    WHY,
)
