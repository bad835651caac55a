"""Norms under names of their own, and what is scaled by them."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C, linalg
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._functions.out import write_out
from rushlight._names.publish import publish

__all__ = [
    "_euclidean_dist",
    "_weight_norm",
    "embedding_renorm_",
    "frobenius_norm",
    "norm_except_dim",
    "nuclear_norm",
    "renorm",
]


def frobenius_norm(input: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False, *,
                   out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The root of the sum of squares.

    Arguments:
        input: a tensor.
        dim: the dim or dims; () is all.
        keepdim: keep each reduced dim with size 1.
        out: a tensor to write the result into.

    Example:
        >>> rl.frobenius_norm(rl.tensor([[3.0, 4.0]]), dim=1)
        tensor([5.])
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: dim must name at most two dims, got {dim!r}")
    return _C._vector_norm(input, 2, dims or None, keepdim, out=out)


def nuclear_norm(input: Tensor, dim: Sequence[int] = (-2, -1), keepdim: bool = False, *,
                 out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The sum of the singular values.

    Arguments:
        input: (..., m, n).
        dim: the two dims.
        keepdim: keep each reduced dim with size 1.
        out: a tensor to write the result into.

    Example:
        >>> rl.nuclear_norm(rl.tensor([[3.0, 0.0], [0.0, 4.0]]), keepdim=True)
        tensor([[7.]])
    """
    return linalg.matrix_norm(input, "nuc", dim, keepdim, out=out)


def norm_except_dim(v: Tensor, pow: float = 2, dim: int = 0) -> Tensor:
    """The norm over all dims but one.

    Arguments:
        v: a tensor.
        pow: which norm.
        dim: the dim that stays; -1 is one norm for all.

    Example:
        >>> rl.norm_except_dim(rl.tensor([[3.0, 4.0], [0.0, 5.0]]), 2, dim=0)
        tensor([[5.],
                [5.]])
    """
    if dim == -1:
        return _C._vector_norm(v, pow)
    return _C._vector_norm(v, pow, [d for d in range(v.ndim) if d != dim % v.ndim], True)


@autocast_policy(cuda="float32")
def renorm(
    input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """The slices along dim, those with a larger norm scaled down to maxnorm.

    Arguments:
        input: a tensor.
        p: which norm.
        dim: slices along this dim have a norm each.
        maxnorm: the largest that stays.
        out: a tensor to write the result into.

    Example:
        >>> rl.renorm(rl.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1.0)
        tensor([[0.6000, 0.8000],
                [0.3000, 0.4000]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"renorm: needs at least 2 dimensions, got shape {list(input.shape)}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: maxnorm must not be negative, got {maxnorm}")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"renorm: dim {dim} is out of range for {input.ndim} dimensions")
    others = [d for d in range(input.ndim) if d != dim % input.ndim]
    norms = linalg.vector_norm(input, p, others, keepdim=True)
    scale = _C.where(norms > maxnorm, maxnorm / (norms + 1e-7), _C.ones_like(norms))
    return write_out("renorm", (input * scale).contiguous(), out)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales down the rows that are named and whose norm is larger than max_norm.

    Arguments:
        input: a matrix; it is changed.
        indices: the rows.
        max_norm: the largest norm that a row may have.
        norm_type: the p of the norm.

    Example:
        >>> rl.embedding_renorm_(rl.full((2, 2), 3.0), rl.tensor([1]), 2.0, 1.0)
        tensor([[3., 3.],
                [1., 1.]])
    """
    rows = indices.reshape(-1).unique()
    found = input.detach().index_select(0, rows)
    norms = _C._vector_norm(found, norm_type, (1,), True)
    scale = _C.where(norms > max_norm, max_norm / (norms + 1e-7), _C.ones_like(norms))
    input.detach().index_copy_(0, rows, found * scale)
    return input


def _weight_norm(v, g, dim=0):
    """v * (g / norm of v over all dims but one)."""
    return v * (g / norm_except_dim(v, 2, dim))


def _euclidean_dist(x1, x2):
    """The distances of every two rows."""
    from rushlight.functional import cdist

    return cdist(x1, x2, 2.0, "use_mm_for_euclid_dist")


publish(globals(), "", ["frobenius_norm", "norm_except_dim", "nuclear_norm", "renorm"])
