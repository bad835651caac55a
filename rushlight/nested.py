"""Nested tensors: not there. The names can be found, and raise when called."""

from rushlight._missing import absent

absent(
    globals(),
    "there are no nested tensors; pad the sequences (nn.utils.rnn.pad_sequence)",
    functions="""as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged
    to_padded_tensor""",
)
