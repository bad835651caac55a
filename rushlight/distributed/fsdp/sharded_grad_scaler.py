"""Names of torch.distributed.fsdp.sharded_grad_scaler: to be imported only."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="ShardedGradScaler",
)
