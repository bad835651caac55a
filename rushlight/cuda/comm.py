"""Moving tensors between GPUs."""

from rushlight._missing import absent

absent(
    globals(),
    "there is one device at most",
    functions="broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
)
