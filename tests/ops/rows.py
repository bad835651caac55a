"""All rows, gathered from the families."""

from ops import (
    rows_binary,
    rows_convolution,
    rows_creation,
    rows_fft,
    rows_indexing,
    rows_linalg,
    rows_losses,
    rows_matmul,
    rows_normalization,
    rows_pooling,
    rows_random,
    rows_recorded,
    rows_reduction,
    rows_rnn,
    rows_shape,
    rows_special,
    rows_unary,
    rows_vision,
)

FAMILIES = [
    rows_creation,
    rows_unary,
    rows_binary,
    rows_reduction,
    rows_shape,
    rows_indexing,
    rows_losses,
    rows_matmul,
    rows_recorded,
    rows_convolution,
    rows_normalization,
    rows_pooling,
    rows_vision,
    rows_rnn,
    rows_linalg,
    rows_fft,
    rows_special,
]
ROWS = [row for family in FAMILIES for row in family.ROWS]
RANDOM_NAMES = rows_random.NAMES
assert len({row.name for row in ROWS}) == len(ROWS), "two rows for one op"
