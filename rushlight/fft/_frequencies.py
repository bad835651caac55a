"""Where the frequencies of a transform stand."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from rushlight import _C
from rushlight._C import Tensor, layout
from rushlight._functions.out import write_out
from rushlight.types import Device, _dtype


def _spaced(values, d, dtype, device, requires_grad):
    dtype = dtype or _C.get_default_dtype()
    if not (dtype.is_floating_point or dtype.is_complex):
        raise _C.DTypeError(f"fftfreq: dtype must be floating or complex, got {dtype}")
    return (values.to(dtype) * (1.0 / d if d else inf)).requires_grad_(requires_grad)


def fftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None,
            layout: layout | None = None, device: Device = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of fft of n samples that lie d apart, those below zero behind the others.

    Arguments:
        n: how many samples.
        d: distance between them.
        out: a tensor to write the result into.
        dtype, layout, device, requires_grad: of the result, as for empty.

    Example:
        >>> rl.fft.fftfreq(4, d=0.5)
        tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
    """
    if out is not None and dtype is None:
        dtype = out.dtype
    wide = _C.float64
    rising = _C.arange((n + 1) // 2, dtype=wide, device=device)
    falling = _C.arange(-(n // 2), 0, dtype=wide, device=device)
    found = _spaced(_C.cat([rising, falling]), n * d, dtype, device, requires_grad)
    return write_out("fft.fftfreq", found, out)


def rfftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None,
             layout: layout | None = None, device: Device = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of rfft of n samples that lie d apart.

    Arguments:
        n: how many samples.
        d: distance between them.
        out: a tensor to write the result into.
        dtype, layout, device, requires_grad: of the result, as for empty.

    Example:
        >>> rl.fft.rfftfreq(4, d=0.5)
        tensor([0.0000, 0.5000, 1.0000])
    """
    if out is not None and dtype is None:
        dtype = out.dtype
    rising = _C.arange(n // 2 + 1, dtype=_C.float64, device=device)
    return write_out("fft.rfftfreq", _spaced(rising, n * d, dtype, device, requires_grad), out)


def _shifted(input, dim, by):
    if isinstance(dim, _C.Tensor) and dim.ndim == 0:
        dim = int(dim)
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = list(dims)
    if not dims:
        return input.clone()
    return input.roll([by(input.shape[d]) for d in dims], dims)


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Frequency zero moved to the middle of the dims (all by default).

    Arguments:
        input: any tensor.
        dim: the dim or dims; None is all.

    Example:
        >>> rl.fft.fftshift(rl.tensor([[0, 1, -2, -1]]), dim=1)
        tensor([[-2, -1,  0,  1]])
    """
    return _shifted(input, dim, lambda n: n // 2)


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Undoes fftshift.

    Arguments:
        input: any tensor.
        dim: the dim or dims; None is all.

    Example:
        >>> rl.fft.ifftshift(rl.tensor([[-2, -1, 0, 1]]), dim=1)
        tensor([[ 0,  1, -2, -1]])
    """
    return _shifted(input, dim, lambda n: (n + 1) // 2)
