"""Small facts about elements, as tensors: which are true, the extremes, the distinct ones."""

from rushlight import _C

__all__ = [
    "_aminmax",
    "_is_all_true",
    "_is_any_true",
    "_is_zerotensor",
    "_masked_scale",
    "_unique",
    "_unique2",
]


def _is_all_true(self):
    """Whether all elements are true, as a tensor."""
    return self.all()


def _is_any_true(self):
    """Whether any element is true, as a tensor."""
    return self.any()


def _is_zerotensor(self):
    """False: all tensors have memory."""
    return False


def _masked_scale(self, mask, scale):
    """self * mask * scale."""
    return self * mask * scale


def _aminmax(self, dim=None, keepdim=False):
    """The smallest and the largest element."""
    return tuple(_C.aminmax(self, dim=dim, keepdim=keepdim))


def _unique(self, sorted=True, return_inverse=False):
    """The distinct elements, and which of them each element is."""
    values, inverse = _C.Tensor.unique(self, sorted=sorted, return_inverse=True)
    return values, inverse if return_inverse else inverse.new_empty(0)


def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    """The distinct elements, which of them each element is, and how many there are of each."""
    values, inverse, counts = _C.Tensor.unique(
        self, sorted=sorted, return_inverse=True, return_counts=True
    )
    empty = inverse.new_empty(0)
    return values, inverse if return_inverse else empty, counts if return_counts else empty
