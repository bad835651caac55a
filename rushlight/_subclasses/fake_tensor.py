"""Tensors without memory, for tracing: names for isinstance."""

from rushlight._missing import absent

__all__ = ["is_fake"]


def is_fake(x):
    """Whether x is a tensor without memory: never."""
    return False


absent(
    globals(),
    'programs are not traced; tensors without memory have device="meta"',
    classes="FakeTensor FakeTensorMode",
)
