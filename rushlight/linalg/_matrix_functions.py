"""Functions of matrices that are made of products alone."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad

# Of matrices up to these norms (by the bytes of a real number), the polynomial is exp within half
# a unit in the last place. The larger the norm, the fewer squarings, which double the error each.
_DEGREE = 19
_NORMS = {4: 3.01, 8: 1.09}


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices: the sum of A^k / k!.

    Arguments:
        A: (..., n, n).

    Example:
        >>> rl.linalg.matrix_exp(rl.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    _check_square("linalg.matrix_exp", A)
    size = A.shape[-1]
    if A.numel() == 0:
        return A.clone()
    if size == 1:
        return A.exp()
    wide = A.float() if A.dtype in (_C.float16, _C.bfloat16) else A
    halvings = _halvings(wide.detach())
    scaled = wide * (0.5**halvings).to(wide.dtype)
    result = _taylor(scaled)
    # exp(A) = exp(A / 2^s)^(2^s), with each matrix's own s. Inside vmap all samples are asked.
    k = 0
    while _C._first_failure((more := halvings > k).to(_C.int32)):
        result = _C.where(more, result @ result, result)
        k += 1
    return result.to(A.dtype)


@no_grad()
def _halvings(A):
    """How often each matrix has to be halved for its norm to be small, (..., 1, 1)."""
    norm = A.abs().sum(-2).amax(-1)[..., None, None].double()
    limit = _NORMS[A.real.element_size() if A.is_complex() else A.element_size()]
    count = (norm / limit).log2().ceil().clamp(min=0)
    return _C.where(norm.isfinite(), count, _C.zeros_like(count))


def _taylor(A):
    """The polynomial in steps of A^4 (Paterson and Stockmeyer): seven products, not nineteen."""
    one = _C.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    square = A @ A
    powers = [one, A, square, square @ A]
    fourth = square @ square
    result = _terms(powers, _DEGREE - 3)
    for first in range(_DEGREE - 7, -1, -4):
        result = result @ fourth + _terms(powers, first)
    return result


def _terms(powers, first):
    """Four terms of the series, the first of which has this degree."""
    total = powers[0] * (1 / math.factorial(first))
    for k in (1, 2, 3):
        total = total + powers[k] * (1 / math.factorial(first + k))
    return total


def _check_square(name, A):
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise _C.ShapeError(f"{name}: expects square matrices, got shape {list(A.shape)}")
    if not (A.is_floating_point() or A.is_complex()):
        raise _C.DTypeError(f"{name}: expects a floating or complex matrix, got {A.dtype}")
