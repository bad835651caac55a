"""A layout that no tensor has, to compare with, and lists of indices of sparse ones."""

from rushlight import _C
from rushlight._functions.out import write_out

__all__ = [
    "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo",
    "_mkldnn",
    "legacy_contiguous_format",
]


class _AbsentLayout:
    """A layout that no tensor has, to compare with."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"rushlight.{self._name}"


_mkldnn = _AbsentLayout("_mkldnn")
legacy_contiguous_format = _C.contiguous_format


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
