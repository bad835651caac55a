"""Names of torch.distributed.checkpoint.optimizer: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    functions="load_sharded_optimizer_state_dict",
)
