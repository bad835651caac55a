"""What programs check when they run; the compiler reads these functions."""

from __future__ import annotations

from rushlight import _C


def need_numbers(x, depth, kind):
    """Of x.tolist(): what its annotation says."""
    if x.dim() != depth:
        raise RuntimeError(
            f"tolist: the annotation has lists of {depth} dimensions, the tensor has {x.dim()}"
        )
    if kind == "float":
        fits = x.is_floating_point()
    elif kind == "bool":
        fits = x.dtype == _C.bool
    else:
        fits = not (x.is_floating_point() or x.is_complex() or x.dtype == _C.bool)
    if not fits:
        raise RuntimeError(f"tolist: the annotation says {kind}, the tensor is {x.dtype}")


def need_dtype(op, dtype, last):
    """Of finfo and iinfo, once all other dtypes were compared."""
    if dtype != last:
        raise TypeError(f"{op}: does not describe {dtype}")


def need_out(op, result, out):
    """Of `out=`: as outside of programs."""
    fits = out.dtype == result.dtype or out.is_complex()
    if not fits and not result.is_complex():
        whole = not result.is_floating_point()
        fits = out.is_floating_point() or (whole and out.dtype != _C.bool)
    if not fits:
        raise _C.DTypeError(
            f"{op}: the result is {result.dtype} and cannot be cast to out's dtype {out.dtype}"
        )
    if result.requires_grad:
        raise RuntimeError(
            f"{op}: out= does not support automatic differentiation, but one of the arguments "
            "requires grad"
        )
