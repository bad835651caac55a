"""Shapes as tensors, for exported models."""

from rushlight import _C


def shape_as_tensor(x):
    """The sizes as an int64 tensor."""
    return _C.tensor(list(x.shape), dtype=_C.int64)


def reshape_from_tensor_shape(x, shape):
    """The tensor in the shape that another tensor holds."""
    return x.reshape(shape.tolist())
