"""Names of torch.distributed._functional_collectives: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="AsyncCollectiveTensor",
    functions="""all_gather_into_tensor_coalesced all_gather_single all_gather_tensor
    all_gather_tensor_autograd all_reduce all_reduce_coalesced all_to_all_single
    all_to_all_single_autograd broadcast permute_tensor reduce_scatter_tensor
    reduce_scatter_tensor_autograd reduce_scatter_tensor_coalesced wait_tensor""",
)
