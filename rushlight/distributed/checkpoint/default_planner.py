"""Names of torch.distributed.checkpoint.default_planner: to be imported only."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.checkpoint import DefaultLoadPlanner as DefaultLoadPlanner
from rushlight.distributed.checkpoint import DefaultSavePlanner as DefaultSavePlanner

absent(
    globals(),
    WHY,
)
