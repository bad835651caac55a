"""New arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import Device, Number, _dtype

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


# Dtypes that are made from others.
_CASTS = (_C.uint16, _C.uint32, _C.uint64, _C.complex64, _C.complex128)


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(
    obj: Any, /, *, dtype: _dtype | None = None, device: Device = None, copy: bool | None = None
) -> Tensor:
    """A tensor with the values of obj; copy=False raises where its memory cannot be shared."""
    if isinstance(obj, Tensor):
        moved = obj.to(device=device or obj.device, dtype=dtype or obj.dtype)
        if copy and moved is obj:
            return obj.clone()
        if copy is False and moved is not obj:
            raise ValueError("asarray: copy=False, and another dtype or device needs a copy")
        return moved
    import rushlight

    if copy is False and not hasattr(obj, "__dlpack__") and not _has_buffer(obj):
        raise ValueError(f"asarray: copy=False, and the memory of {type(obj).__name__} objects "
                         "cannot be shared")  # fmt: skip
    make = rushlight.tensor if copy else rushlight.as_tensor
    return make(obj, dtype=dtype, device=device)


def _has_buffer(obj):
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def arange(start: int, /, stop: Number | None = None, step: int = 1, *, dtype: _dtype | None = None,
           device: Device = None) -> Tensor:  # fmt: skip
    """start, start + step, ... below stop."""
    if stop is None:
        start, stop = 0, start
    if (step > 0 and stop <= start) or (step < 0 and stop >= start):
        whole = all(isinstance(x, int) for x in (start, stop, step))
        default = _C.int64 if whole else _C.get_default_dtype()
        return _C.empty(0, dtype=dtype or default, device=device)
    if dtype in _CASTS:
        return _C.arange(start, stop, step, device=device).to(dtype)
    return _C.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Sequence[int], *, dtype: _dtype | None = None, device: Device = None) -> Tensor:
    """Uninitialised."""
    return _C.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: _dtype | None = None, device: Device = None) -> Tensor:
    """Uninitialised, with x's shape."""
    return _C.empty_like(x, dtype=dtype, device=device)


def eye(n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: _dtype | None = None,
        device: Device = None) -> Tensor:  # fmt: skip
    """Ones on the k-th diagonal."""
    n_cols = n_rows if n_cols is None else n_cols
    result = _C.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def from_dlpack(x: Tensor, /, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of x."""
    import rushlight

    result = rushlight.from_dlpack(x)
    if device is not None and result.device != _C.device(device):
        if copy is False:
            raise ValueError("from_dlpack: copy=False, and another device needs a copy")
        return result.to(device)
    return result.clone() if copy else result


def full(
    shape: Sequence[int], fill_value: Number, *, dtype: _dtype | None = None, device: Device = None
) -> Tensor:
    """One value everywhere."""
    return _C.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Number, *, dtype: _dtype | None = None, device: Device = None
) -> Tensor:
    """One value everywhere, with x's shape."""
    return _C.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(start: int, stop: Number, /, num: Any, *, dtype: _dtype | None = None,
             device: Device = None, endpoint: bool = True) -> Tensor:  # fmt: skip
    """num evenly spaced values from start to stop."""
    if dtype in _CASTS and not dtype.is_complex:
        return linspace(start, stop, num, dtype=_C.float64, device=device,
                        endpoint=endpoint).to(dtype)  # fmt: skip
    if endpoint:
        return _C.linspace(start, stop, num, dtype=dtype, device=device)
    return _C.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid."""
    from rushlight.functional import meshgrid as run

    return tuple(run(*arrays, indexing=indexing))


def ones(shape: Sequence[int], *, dtype: _dtype | None = None, device: Device = None) -> Tensor:
    """Ones."""
    return _C.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: _dtype | None = None, device: Device = None) -> Tensor:
    """Ones, with x's shape."""
    return _C.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangles."""
    return _C.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangles."""
    return _C.triu(x, k)


def zeros(shape: Sequence[int], *, dtype: _dtype | None = None, device: Device = None) -> Tensor:
    """Zeros."""
    return _C.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: _dtype | None = None, device: Device = None) -> Tensor:
    """Zeros, with x's shape."""
    return _C.zeros_like(x, dtype=dtype, device=device)
