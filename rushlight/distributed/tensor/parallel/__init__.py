"""Names of torch.distributed.tensor.parallel: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="""ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput
    PrepareModuleOutput RowwiseParallel SequenceParallel""",
    functions="loss_parallel parallelize_module",
)
