"""Functions of the package whose kind of result depends on their arguments; and the methods that go with them."""

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["nonzero", "unique", "unique_consecutive"]


def nonzero(input, *, out=None, as_tuple=False):
    """The coordinates of the elements that are not zero: one row each, or one tensor a dim."""
    if not as_tuple:
        return _C.nonzero(input, out=out)
    if out is not None:
        raise TypeError("nonzero: out= needs as_tuple=False")
    return _C.where(input)


def _asked_for(results, return_inverse, return_counts):
    output, inverse, counts = results
    if return_inverse and return_counts:
        return output, inverse, counts
    if return_inverse:
        return output, inverse
    return (output, counts) if return_counts else output


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements (or slices along dim) in order, with what else was asked for."""
    if dim is None:
        results = _C._unique2(input, sorted, return_inverse, return_counts)
    else:
        results = _C._unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(results, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The input without repetitions of the element (or slice) before, with what else was asked for."""
    results = _C._unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked_for(results, return_inverse, return_counts)


def _nonzero_method(self, *, as_tuple=False):
    """The coordinates of the elements that are not zero: one row each, or one tensor a dim."""
    return nonzero(self, as_tuple=as_tuple)


_nonzero_method.__name__ = "nonzero"
Tensor.nonzero = _nonzero_method
Tensor.unique = unique
Tensor.unique_consecutive = unique_consecutive
