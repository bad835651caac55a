"""Names of torch.distributed._functional_collectives: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="AsyncCollectiveTensor",
    functions="""all_gather_tensor all_reduce all_to_all_single broadcast reduce_scatter_tensor
    wait_tensor""",
)
