"""Functions of matrices that are made of products alone."""

import math

from rushlight import _C
from rushlight.autograd import no_grad

# exp of a matrix of norm at most 1/2: x^16 / 16! is below half a unit in the last place of float64.
_DEGREE, _NORM = 15, 0.5


def matrix_exp(A):
    """The exponential of square matrices: the sum of A^k / k!."""
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
    # exp(A) = exp(A / 2^s)^(2^s), with each matrix's own s.
    for k in range(int(halvings.max())):
        squared = result @ result
        result = _C.where(halvings > k, squared, result)
    return result.to(A.dtype)


@no_grad()
def _halvings(A):
    """How often each matrix has to be halved for its norm to be small, (..., 1, 1)."""
    norm = A.abs().sum(-2).amax(-1)[..., None, None].double()
    count = (norm / _NORM).log2().ceil().clamp(min=0)
    return _C.where(norm.isfinite(), count, _C.zeros_like(count))


def _taylor(A):
    """The polynomial in steps of A^4 (Paterson and Stockmeyer): six products instead of fifteen."""
    one = _C.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    square = A @ A
    powers = [one, A, square, square @ A]
    fourth = square @ square

    def block(first):
        return sum(p * (1 / math.factorial(first + k)) for k, p in enumerate(powers))

    result = block(_DEGREE - 3)
    for first in range(_DEGREE - 7, -1, -4):
        result = result @ fourth + block(first)
    return result


def householder_product(A, tau, *, out=None):
    """The first columns of the product of reflections I - tau_i v_i v_i^H.

    v_i is zero above row i, one in it, and column i of A below it: the Q that a QR factorization
    keeps in that form.
    """
    name = "linalg.householder_product"
    if A.dim() < 2 or A.shape[-2] < A.shape[-1]:
        raise RuntimeError(
            f"{name}: A must have at least as many rows as columns, got shape {list(A.shape)}"
        )
    if tau.dim() != A.dim() - 1 or tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError(
            f"{name}: tau must have the batch dims of A and one more, got {list(tau.shape)} for A "
            f"of shape {list(A.shape)}"
        )
    if tau.shape[-1] > A.shape[-1]:
        raise RuntimeError(
            f"{name}: tau must have at most as many elements as A has columns, got "
            f"{tau.shape[-1]} and {A.shape[-1]}"
        )
    if tau.dtype != A.dtype:
        raise RuntimeError(f"{name}: A and tau differ in dtype: {A.dtype} and {tau.dtype}")
    rows, columns = A.shape[-2:]
    one = _C.eye(rows, dtype=A.dtype, device=A.device)
    vectors = A.tril(-1) + one[:, :columns]
    result = one[:, :columns].expand(A.shape)
    for i in reversed(range(tau.shape[-1])):
        v = vectors[..., i : i + 1]
        result = result - tau[..., i, None, None] * v @ (v.mH @ result)
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return result.clone() if tau.shape[-1] == 0 else result


def orgqr(input, tau, *, out=None):
    """The old name of linalg.householder_product."""
    return householder_product(input, tau, out=out)


def _check_square(name, A):
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise _C.ShapeError(f"{name}: expects square matrices, got shape {list(A.shape)}")
    if not (A.is_floating_point() or A.is_complex()):
        raise _C.DTypeError(f"{name}: expects a floating or complex matrix, got {A.dtype}")
