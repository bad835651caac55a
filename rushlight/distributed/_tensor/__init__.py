"""Names of torch.distributed._tensor: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.tensor import *  # noqa: F403
from rushlight.distributed.tensor import DeviceMesh as DeviceMesh
from rushlight.distributed.tensor import init_device_mesh as init_device_mesh

absent(
    globals(),
    WHY,
)
