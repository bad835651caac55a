"""Masked tensors: not there. The names can be found, and raise when called."""

from rushlight._missing import absent

absent(
    globals(),
    "there are no masked tensors; use where and masked_fill",
    classes="MaskedTensor",
    functions="as_masked_tensor is_masked_tensor masked_tensor",
)
