"""What programs log (tensors, arrays, lists, numbers) as NumPy arrays, and images in one layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import _C
from rushlight.utils._images import grid


def as_array(x: Any) -> np.ndarray:
    """A NumPy array of any loggable thing."""
    if isinstance(x, _C.Tensor):
        x = x.detach().cpu()
        return (x.float() if x.dtype == _C.bfloat16 else x).numpy()
    if isinstance(x, list | tuple) and any(isinstance(v, _C.Tensor) for v in x):
        return np.array([as_array(v) for v in x])
    if isinstance(x, np.ndarray | np.generic | list | tuple | int | float | complex | bool):
        return np.asarray(x)
    raise NotImplementedError(
        f"utils.tensorboard: cannot log a {type(x).__name__}; give a tensor, an array or numbers"
    )


# PyTorch's classes too, which programs catch to leave out what is no scalar.
class NotOneElementError(ValueError, AssertionError):
    """A tensor or an array with another number of elements than one, given as a scalar."""


class SeveralNumbersError(ValueError, NotImplementedError):
    """A list of numbers, given as a scalar."""


def as_number(x: Any) -> float:
    """A Python float; tensors must hold one element."""
    array = as_array(x)
    if array.size != 1:
        refused = SeveralNumbersError if isinstance(x, list | tuple) else NotOneElementError
        raise refused(f"utils.tensorboard: a scalar has one element, got shape {array.shape}")
    return float(array.reshape(())[()])


def as_image(x: Any, dataformats: str) -> np.ndarray:
    """(height, width, channels) of bytes; several images become a grid."""
    array = as_array(x)
    formats = dataformats.upper()
    if (
        len(set(formats)) != len(formats)
        or len(formats) != array.ndim
        or not set(formats) <= set("NCHW")
    ):
        raise ValueError(
            f"utils.tensorboard: dataformats {dataformats!r} does not describe an array of shape "
            f"{array.shape}; use letters out of N, C, H, W, one for each dimension"
        )
    if formats == "HW":
        array, formats = array[:, :, None], "HWC"
    if "C" not in formats:
        array, formats = array[..., None], formats + "C"
    if "N" in formats:
        array = grid(array.transpose([formats.index(letter) for letter in "NHWC"]))
    else:
        array = array.transpose([formats.index(letter) for letter in "HWC"])
    return as_bytes(_three_channels(array))


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Floats from 0 to 1 become 0 to 255; bytes stay."""
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "f" or array.dtype == bool:
        array = array.astype("f8") * 255.0
    return np.clip(array, 0, 255).astype(np.uint8)


def _three_channels(image):
    return np.concatenate([image] * 3, 2) if image.shape[2] == 1 else image
