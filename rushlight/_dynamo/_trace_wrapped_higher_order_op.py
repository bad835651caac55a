"""A with block that Hugging Face's masks use while they are built under vmap."""

import contextlib

from rushlight._names.missing import names_missing_from


class TransformGetItemToIndex(contextlib.nullcontext):
    """A with block in which PyTorch lets batched tensors index others; vmap does so anyway."""


__getattr__ = names_missing_from(__name__)
