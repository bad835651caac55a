"""Products of matrices in groups and under other names."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import _dtype

__all__ = [
    "_addmm_activation",
    "_grouped_mm",
    "_stack",
    "_trilinear",
    "dsmm",
    "hsmm",
    "spmm",
]


def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Another name of `mm`; the first may be sparse.

    Arguments:
        input, mat2: the matrices.
    """
    return _C.mm(input, mat2)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Another name of `mm`; the first may be sparse.

    Arguments:
        input, mat2: the matrices.
    """
    return _C.mm(input, mat2)


def hsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Another name of `hspmm`: the rows that are not empty, as a sparse tensor.

    Arguments:
        input: a sparse matrix.
        mat2: a dense one.
    """
    from rushlight.sparse._products import hspmm

    return hspmm(input, mat2)


def _bounds(offs, total, what):
    ends = offs.tolist()
    starts = [0, *ends[:-1]]
    if any(a > b for a, b in zip(starts, ends, strict=True)) or (ends and ends[-1] > total):
        raise ValueError(
            f"grouped_mm: offs must rise and end within the {total} {what}, got {ends}"
        )
    return list(zip(starts, ends, strict=True))


def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None,
               bias: Tensor | None = None, out_dtype: _dtype | None = None) -> Tensor:  # fmt: skip
    """A product of matrices per group; where a side has no dimension of groups, `offs` says where
    each group of its rows (or columns) ends.

    Arguments:
        mat_a, mat_b: (G, M, K) and (G, K, N), or one of them without G, whose rows or columns
            offs cuts into groups.
        offs: int32, the end of each group.
        bias: not supported, as in PyTorch.
        out_dtype: dtype of the result; None is that of the inputs.

    Example:
        >>> a, b = rl.ones(3, 2), rl.stack([rl.eye(2), 10 * rl.eye(2)])
        >>> F.grouped_mm(a, b, offs=rl.tensor([1, 3], dtype=rl.int32))
        tensor([[ 1.,  1.],
                [10., 10.],
                [10., 10.]])
    """
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


def _stack(tensors, dim=0):
    """stack."""
    return _C.stack(tensors, dim)


def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over sumdim of the product of three tensors, each with new dims first."""
    for dims, name in ((expand1, "i1"), (expand2, "i2"), (expand3, "i3")):
        for d in dims:
            if name == "i1":
                i1 = i1.unsqueeze(d)
            elif name == "i2":
                i2 = i2.unsqueeze(d)
            else:
                i3 = i3.unsqueeze(d)
    return (i1 * i2 * i3).sum(list(sumdim)) if len(sumdim) else i1 * i2 * i3


def _addmm_activation(self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False):
    """relu, or gelu, of addmm."""
    result = _C.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return _C.gelu(result, approximate="tanh") if use_gelu else result.relu()
