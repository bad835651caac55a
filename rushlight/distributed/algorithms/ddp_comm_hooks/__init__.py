"""Names of torch.distributed.algorithms.ddp_comm_hooks: to be imported only."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="DDPCommHookType",
    functions="register_ddp_comm_hook",
)
