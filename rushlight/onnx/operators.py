"""Shapes as tensors, for exported models."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes as an int64 tensor."""
    return _C.tensor(list(x.shape), dtype=_C.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """The tensor in the shape that another tensor holds."""
    return x.reshape(shape.tolist())
