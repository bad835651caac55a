"""Functions of PyTorch's that begin with an underscore and that libraries call all the same."""

from rushlight import _C
from rushlight._missing import not_available
from rushlight._out import write_out

__all__ = []


def _shape_as_tensor(self):
    """The sizes as a tensor."""
    return _C.tensor(list(self.shape), dtype=_C.int64)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax's input, from that of its output and the output itself."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax's input, from that of its output and the output itself."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _cast(name, dtype):
    def cast(input, non_blocking=False):
        return input.to(dtype, non_blocking)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The tensor as {dtype}."
    return cast


_cast_Byte, _cast_Char = _cast("_cast_Byte", _C.uint8), _cast("_cast_Char", _C.int8)
_cast_Short, _cast_Int = _cast("_cast_Short", _C.int16), _cast("_cast_Int", _C.int32)
_cast_Long, _cast_Half = _cast("_cast_Long", _C.int64), _cast("_cast_Half", _C.float16)
_cast_Float, _cast_Double = _cast("_cast_Float", _C.float32), _cast("_cast_Double", _C.float64)


def _sample_dirichlet(self, generator=None):
    """Draws from Dirichlet laws whose concentrations are the last dimension's."""
    draws = _C._standard_gamma(self.double(), generator)
    return (draws / draws.sum(-1, keepdim=True)).to(self.dtype)


def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False, out=None):
    """Where each of `size` rows begins and ends in a sorted list of row numbers."""
    rows = _C.arange(size + 1, dtype=input.dtype, device=input.device)
    bounds = _C.searchsorted(input.contiguous(), rows, out_int32=out_int32)
    return write_out("_convert_indices_from_coo_to_csr", bounds, out)


def _convert_indices_from_csr_to_coo(
    crow_indices, col_indices, *, out_int32=False, transpose=False, out=None
):
    """The row and the column of each element, as two rows of one tensor."""
    dtype = _C.int32 if out_int32 else _C.int64
    rows = _C.arange(crow_indices.shape[-1] - 1, dtype=dtype, device=crow_indices.device)
    rows = rows.repeat_interleave(crow_indices.diff())
    pair = (col_indices.to(dtype), rows) if transpose else (rows, col_indices.to(dtype))
    found = _C.stack(pair)
    return write_out("_convert_indices_from_csr_to_coo", found, out)


def _segment_reduce(*args, **kwargs):
    """segment_reduce."""
    from rushlight._rare import segment_reduce

    return segment_reduce(*args, **kwargs)


def dsmm(input, mat2):
    """mm; the first may be sparse in PyTorch."""
    return _C.mm(input, mat2)


def spmm(input, mat2):
    """mm; the first may be sparse in PyTorch."""
    return _C.mm(input, mat2)


def hsmm(input, mat2):
    """mm; the first may be sparse in PyTorch."""
    return _C.mm(input, mat2)


# ----- products of groups of rows


def _bounds(offs, total, what):
    ends = offs.tolist()
    starts = [0, *ends[:-1]]
    if any(a > b for a, b in zip(starts, ends, strict=True)) or (ends and ends[-1] > total):
        raise ValueError(
            f"grouped_mm: offs must rise and end within the {total} {what}, got {ends}"
        )
    return list(zip(starts, ends, strict=True))


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """A product of matrices a group; where a side has no dimension of groups, `offs` says where
    each group of its rows (or columns) ends."""
    if bias is not None:
        raise NotImplementedError("grouped_mm: there is no bias in PyTorch either; leave it None")
    if (mat_a.dim() < 3 or mat_b.dim() < 3) != (offs is not None):
        raise ValueError(
            "grouped_mm: offs is needed exactly when one of the matrices has 2 dimensions, got "
            f"shapes {tuple(mat_a.shape)} and {tuple(mat_b.shape)}, offs "
            f"{'None' if offs is None else 'given'}"
        )
    if offs is None:
        out = _C.bmm(mat_a, mat_b)
    elif mat_a.dim() == 2 and mat_b.dim() == 2:  # groups lie along what is summed
        parts = _bounds(offs, mat_a.shape[1], "columns of mat_a")
        out = _C.stack([mat_a[:, i:j] @ mat_b[i:j] for i, j in parts])
    elif mat_a.dim() == 2:
        parts = _bounds(offs, mat_a.shape[0], "rows of mat_a")
        rows = [mat_a[i:j] @ mat_b[g] for g, (i, j) in enumerate(parts)]
        rest = mat_a.shape[0] - (parts[-1][1] if parts else 0)
        if rest:
            rows.append(mat_a.new_zeros(rest, mat_b.shape[2]))
        out = _C.cat(rows)
    else:
        parts = _bounds(offs, mat_b.shape[1], "columns of mat_b")
        out = _C.cat([mat_a[g] @ mat_b[:, i:j] for g, (i, j) in enumerate(parts)], 1)
    return out if out_dtype is None else out.to(out_dtype)


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """grouped_mm by PyTorch's older name."""
    return grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


_scaled_mm = not_available("_scaled_mm", "there are no tensors of 8-bit floats")
