"""Names of torch.distributed.algorithms.ddp_comm_hooks.default_hooks: to be imported only."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    functions="""allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook
    fp16_compress_wrapper""",
)
