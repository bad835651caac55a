"""Names of torch.distributed.tensor.experimental: most can be imported, and raise when used."""

import contextlib

from rushlight._missing import absent
from rushlight.distributed import WHY

__all__ = ["implicit_replication"]


@contextlib.contextmanager
def implicit_replication():
    """Inside, tensors count as replicated where they meet distributed ones. As there are none, all
    is as it was."""
    yield


absent(
    globals(),
    WHY,
    functions="context_parallel local_map register_sharding",
)
