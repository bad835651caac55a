"""Names of torch.distributed.rpc: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="BackendType RRef TensorPipeRpcBackendOptions",
    functions="get_worker_info init_rpc method_factory remote rpc_async rpc_sync shutdown",
)
