"""Reads and writes at places of which a mask says whether they count, and chunks side by side."""

from math import prod

from rushlight import _C
from rushlight._functions.out import write_out

__all__ = ["_chunk_cat", "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate"]


def _at_home(mask, indices):
    """Indices that do not count point at 0, so that they cannot be out of range."""
    return [None if i is None else i.masked_fill(~mask, 0) for i in indices]


def _as_key(indices):
    return tuple(slice(None) if i is None else i for i in indices)


def _unsafe_masked_index(self, mask, indices, fill):
    """self[indices] where the mask says so, else `fill`."""
    if self.numel() == 0:  # there is no 0 to point at
        safe = _C.full_like(self.new_empty(1).expand([max(n, 1) for n in self.shape]), fill)
        return safe[_as_key(_at_home(mask, indices))]
    return self[_as_key(_at_home(mask, indices))].masked_fill(~mask, fill)


def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """self with the values added at the places that count."""
    if self.numel() == 0:
        return self.clone()
    added = values.masked_fill(~mask, 0)
    return self.index_put(_at_home(mask, indices), added, accumulate=True)


def _chunk_cat(tensors, dim, num_chunks, *, out=None):
    """The chunks of all tensors side by side: each is cut along dim, filled up with zeros, and
    flattened behind it."""
    if not tensors:
        raise RuntimeError("_chunk_cat: needs at least one tensor")
    if num_chunks < 1:
        raise RuntimeError(f"_chunk_cat: num_chunks must be positive, got {num_chunks}")
    dim += tensors[0].ndim if dim < 0 else 0
    if dim < 0 or any(t.numel() == 0 or dim >= t.ndim for t in tensors):
        raise RuntimeError(f"_chunk_cat: dim {dim} must be a dim of every tensor, which must not "
                           f"be empty; got {[list(t.shape) for t in tensors]}")  # fmt: skip
    if any(t.shape[:dim] != tensors[0].shape[:dim] for t in tensors):
        raise RuntimeError("_chunk_cat: the sizes before dim must be the same, got "
                           f"{[list(t.shape) for t in tensors]}")  # fmt: skip
    parts = []
    for t in tensors:
        lead, rest = t.shape[:dim], prod(t.shape[dim + 1 :])
        flat = t.reshape(*lead, t.shape[dim] * rest)
        length = -(-t.shape[dim] // num_chunks) * rest
        missing = length * num_chunks - flat.shape[-1]
        if missing:
            flat = _C.cat([flat, flat.new_zeros(*lead, missing)], -1)
        parts.append(flat.reshape(*lead, num_chunks, length))
    return write_out("_chunk_cat", _C.cat(parts, dim + 1), out)
