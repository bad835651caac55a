"""Names of torch.distributed.tensor: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed import DeviceMesh as DeviceMesh
from rushlight.distributed import init_device_mesh as init_device_mesh

absent(
    globals(),
    WHY,
    classes="DTensor Partial Placement Replicate Shard",
    functions="distribute_module distribute_tensor empty full ones rand randn zeros",
)
