"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product.

    Arguments:
        input, other: vectors, matrices or batches of matrices.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.matmul(rl.eye(2), rl.tensor([3.0, 4.0]))
        tensor([3., 4.])
    """
    return _C.matmul(input, other, out=out)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices.

    Arguments:
        A: (..., m, n).
        offset: which diagonal: 0 the main one, above it positive.
        dim1, dim2: the dims of the matrices.

    Example:
        >>> rl.linalg.diagonal(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), offset=1)
        tensor([2.])
    """
    return A.diagonal(offset, dim1, dim2)


def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The product of vectors in space, along a dim of size 3.

    Arguments:
        input, other: vectors of 3 along dim; other dims broadcast.
        dim: the dim to work along; negative numbers count from the last one.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.cross(rl.tensor([1.0, 0.0, 0.0]), rl.tensor([0.0, 1.0, 0.0]), dim=0)
        tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: expects as many dimensions on both sides, got shapes "
                           f"{list(input.shape)} and {list(other.shape)}")  # fmt: skip
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"linalg.cross: dim {dim} is out of range "
                         f"(from {-input.ndim} to {input.ndim - 1})")  # fmt: skip
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(f"linalg.cross: dim {dim} must have size 3, got shapes "
                           f"{list(input.shape)} and {list(other.shape)}")  # fmt: skip
    # y, z, x and z, x, y
    result = input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)
    return write_out("linalg.cross", result, out)


@autocast_policy(cpu="lower_precision", cuda="lower_precision")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The inner products of vectors along a dim; the first ones are conjugated.

    Arguments:
        x, y: tensors that broadcast.
        dim: the dim to work along; negative numbers count from the last one.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.vecdot(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.tensor([1.0, 10.0]), dim=1)
        tensor([21., 43.])
    """
    if not isinstance(y, _C.Tensor):
        raise TypeError(f"linalg.vecdot: argument 'y' must be Tensor, not {type(y).__name__}")
    if not (x.is_floating_point() or x.is_complex()):
        raise _C.DTypeError(f"linalg.vecdot: needs floating or complex numbers, got {x.dtype}")
    if x.dtype != y.dtype:
        raise _C.DTypeError(f"linalg.vecdot: the dtypes differ: {x.dtype} and {y.dtype}")
    if not isinstance(dim, int):
        raise TypeError(f"linalg.vecdot: argument 'dim' must be int, not {type(dim).__name__}")
    result = (x.conj() * y).sum(dim)
    return write_out("linalg.vecdot", result, out)


def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """The n-th power of square matrices; a negative n means powers of the inverse.

    Arguments:
        A: (..., n, n).
        n: the power.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.matrix_power(rl.tensor([[1.0, 1.0], [0.0, 1.0]]), -3)
        tensor([[ 1., -3.],
                [ 0.,  1.]])
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"linalg.matrix_power: needs square matrices, got {list(A.shape)}")
    if n != int(n) or not -(2**63) <= n < 2**63:
        raise _C.IntOverflowError(f"linalg.matrix_power: n must be an int of 64 bits, got {n}")
    if n == 0:
        one = _C.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        # A copy of A, written over: the gradient is zero rather than cut off.
        return write_out("linalg.matrix_power", A.clone().copy_(one), out)
    if n < 0:
        from rushlight.linalg._solve import inv

        A, n = inv(A), -n
    result, square = None, A
    while True:  # by the binary digits of n
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        if n == 0:
            break
        square = square @ square
    result = result.clone() if result is A else result
    return write_out("linalg.matrix_power", result, out)


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, in the order that needs the fewest multiplications; the
    first and the last may be vectors.

    Arguments:
        tensors: two or more matrices; the first and the last may be vectors.
        out: a tensor to write the result into.

    Example:
        >>> rl.linalg.multi_dot([rl.ones(2, 100), rl.ones(100, 3), rl.ones(3, 1)])
        tensor([[300.],
                [300.]])
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"linalg.multi_dot: needs at least 2 tensors, got {len(tensors)}")
    first, last = tensors[0], tensors[-1]
    squeeze = []
    if first.ndim == 1:
        tensors[0] = first.unsqueeze(0)
        squeeze.append(0)
    if last.ndim == 1:
        tensors[-1] = last.unsqueeze(-1)
        squeeze.append(-1)
    for i, t in enumerate(tensors):
        if t.ndim != 2:
            raise RuntimeError(f"linalg.multi_dot: tensor {i} must be a matrix"
                               f"{' or a vector' if i in (0, len(tensors) - 1) else ''}, got shape "
                               f"{list(t.shape)}")  # fmt: skip
    for i, (a, b) in enumerate(pairwise(tensors)):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(f"linalg.multi_dot: tensors {i} and {i + 1} do not go together: "
                               f"shapes {list(a.shape)} and {list(b.shape)}")  # fmt: skip
    result = _product(tensors, _best_cuts([t.shape[0] for t in tensors] + [tensors[-1].shape[1]]),
                      0, len(tensors) - 1)  # fmt: skip
    for d in squeeze:
        result = result.squeeze(d)
    return write_out("linalg.multi_dot", result, out)


def _best_cuts(sizes):
    """cuts[i, j]: behind which of the matrices i ... j the cheapest product is cut."""
    count = len(sizes) - 1
    cost, cuts = {(i, i): 0 for i in range(count)}, {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], cuts[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cuts


def _product(tensors, cuts, i, j):
    if i == j:
        return tensors[i]
    k = cuts[i, j]
    return _product(tensors, cuts, i, k) @ _product(tensors, cuts, k + 1, j)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Powers 0 ... N - 1 of the elements, along a new last dim.

    Arguments:
        x: (..., n).
        N: how many columns; None is n.

    Example:
        >>> rl.linalg.vander(rl.tensor([2, 3]), N=4)
        tensor([[ 1,  2,  4,  8],
                [ 1,  3,  9, 27]])
    """
    x = x.reshape(1) if x.ndim == 0 else x
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {n}")
    if x.dtype in (_C.bool, _C.float16, _C.bfloat16):
        raise _C.DTypeError(f"linalg.vander: not implemented for {x.dtype} tensors")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.int64)
    ones = _C.ones_like(x).unsqueeze(-1)
    powers = x.unsqueeze(-1).expand(*x.shape, n - 1).cumprod(-1)
    return _C.cat([ones, powers], -1)
