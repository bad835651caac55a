"""Random tensors for tests."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor, memory_format
from rushlight.types import Device, _dtype


def make_tensor(
    *shape: Any,
    dtype: _dtype,
    device: str | Device = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:
    """Uniform numbers from [low, high): by default (-9, 9), for uint8 (0, 10), or bools.

    Arguments:
        shape: the shape, as a sequence or as one argument per dim.
        dtype: its dtype.
        device: where it lies.
        low, high: the range; None is -9 to 9, or what the dtype has.
        requires_grad: record what is done with it for backward.
        noncontiguous: with gaps in memory.
        exclude_zero: no zeros.
        memory_format: the order of dims in memory.

    Example:
        >>> x = rl.testing.make_tensor(2, 3, dtype=rl.int64, low=1, high=3)
        >>> x.shape, bool(((x >= 1) & (x < 3)).all())
        (rushlight.Size([2, 3]), True)
    """
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    low_default, high_default = (
        (0, 2) if dtype == _C.bool else (0, 10) if dtype == _C.uint8 else (-9, 10)
    )
    if dtype.is_floating_point or dtype.is_complex:
        low_default, high_default = -9, 9
    low = low_default if low is None else low
    high = high_default if high is None else high
    if dtype.is_complex:
        parts = _C.empty(*shape, 2, dtype=dtype.to_real(), device=device).uniform_(low, high)
        out = _C.view_as_complex(parts)
    elif dtype.is_floating_point:
        out = _C.empty(*shape, dtype=dtype, device=device).uniform_(low, high)
    else:
        out = _C.randint(int(low), int(high), shape, device=device).to(dtype)
    if exclude_zero:
        out = _C.where(out == 0, _C.ones_like(out), out)
    if noncontiguous and out.numel() > 1:
        out = out.repeat_interleave(2, -1)[..., ::2]
    if memory_format is not None:
        out = out.clone(memory_format=memory_format)
    return out.requires_grad_(requires_grad)
