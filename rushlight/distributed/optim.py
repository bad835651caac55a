"""Names of torch.distributed.optim: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer",
    functions="as_functional_optim",
)
