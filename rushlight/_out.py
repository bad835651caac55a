"""out= for functions that are written in Python, by the rules of those in the table."""

import warnings

from rushlight import _C


def write_out(op, result, out):
    """The result, or ``out`` after the result was written into it."""
    if out is None:
        return result
    if not _C.can_cast(result.dtype, out.dtype):
        raise _C.DTypeError(f"{op}: the result is {result.dtype} and cannot be cast to out's dtype "
                            f"{out.dtype}")  # fmt: skip
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(f"{op}: out had shape {list(out.shape)} and was resized to the result's "
                          f"shape {list(result.shape)}", UserWarning, stacklevel=3)  # fmt: skip
        out.resize_(result.shape)
    with_grad = _C.is_grad_enabled() and (result.requires_grad or out.requires_grad)
    if with_grad:
        raise RuntimeError(f"{op}: out= does not support automatic differentiation")
    return out.copy_(result)
