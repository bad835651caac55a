"""out= for functions that are written in Python, by the rules of those in the table."""

from rushlight import _C


def write_out(op, result, out):
    """The result, or ``out`` after the result was written into it."""
    if out is None:
        return result
    _C._write_out([result], [out], op)
    return out


def write_outs(op, results, outs):
    """The results, or the tuple ``outs`` after they were written there: all of them or none."""
    if outs is None:
        return results
    if isinstance(outs, _C.Tensor):  # which has rows to write into
        raise TypeError(f"{op}: argument 'out' must be a tuple of tensors, not Tensor")
    _C._write_out(list(results), list(outs), op)
    return tuple(outs)
