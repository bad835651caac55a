"""Linear maps, look-ups and distances."""

from __future__ import annotations

import warnings

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.functional import broadcast_tensors

__all__ = [
    "cosine_similarity", "embedding", "embedding_bag", "normalize", "one_hot",
    "pairwise_distance", "pdist",
]  # fmt: skip


def row_to_skip(op: str, padding_idx: int | None, rows: int) -> int | None:
    """The row that gets no gradient, counted from the front."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"{op}: padding_idx {padding_idx} is out of range for {rows} rows")
    return padding_idx % rows


def _takes_sparse_gradient(weight):
    # What a table that is no leaf was computed by needs a dense gradient.
    return weight.requires_grad and weight.is_leaf and _C.is_grad_enabled()


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None,
              max_norm: float | None = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:  # fmt: skip
    """Rows of weight by index. The row padding_idx gets no gradient.

    Arguments:
        input: int64 or int32 indices, of any shape.
        weight: (num_embeddings, embedding_dim).
        padding_idx: a row that gets no gradient.
        max_norm: rows that are looked up and longer than this are scaled down first, in place.
        norm_type: which norm max_norm speaks of.
        scale_grad_by_freq: divide a row's gradient by how often it was looked up.
        sparse: the table gets a sparse gradient, a row per index (see SparseAdam).

    Returns: a tensor of the shape of the input with one more dim.

    Raises: IndexError for an index that has no row.

    Example:
        >>> table = rl.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
        >>> F.embedding(rl.tensor([2, 0]), table, padding_idx=0)
        tensor([[3., 4.],
                [0., 0.]])
    """
    if input.is_floating_point() or input.is_complex() or input.dtype == _C.bool:
        raise _C.DTypeError(
            f"embedding: indices must be integers, got {input.dtype}: convert with input.long()"
        )
    if weight.dim() != 2:
        raise _C.ShapeError(f"embedding: weight must have 2 dims, got {list(weight.shape)}")
    padding_idx = row_to_skip("embedding", padding_idx, weight.shape[0])
    if input.dtype not in (_C.int64, _C.int32):
        input = input.long()
    if max_norm is not None:
        _shorten_rows(weight, input.reshape(-1), max_norm, norm_type)
    padding_idx = -1 if padding_idx is None else padding_idx
    if sparse and _takes_sparse_gradient(weight):
        from rushlight.sparse._gradients import embedding_with_sparse_gradient

        return embedding_with_sparse_gradient(weight, input, padding_idx, scale_grad_by_freq)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq)


def _shorten_rows(weight, indices, max_norm, norm_type):
    with no_grad():
        # On a GPU that would wait; rows that come twice are written twice, with the same numbers.
        used = indices if indices.is_cuda else indices.unique()
        rows = weight.detach().index_select(0, used)
        norms = _C._vector_norm(rows, norm_type, [1], True)
        scale = (max_norm / (norms + 1e-7)).clamp(max=1.0)
        weight.detach().index_copy_(0, used, rows * scale)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None,
                  max_norm: float | None = None, norm_type: float = 2,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> Tensor:  # fmt: skip
    """Sums, means or maxima of rows of weight, bag by bag.

    A 2-d input has one bag per row; of a 1-d one, bag b starts at offsets[b]. Indices equal to
    padding_idx do not count.

    Never makes the rows themselves, so it needs less memory than embedding followed by a sum.

    Arguments:
        input: indices: a matrix of one bag per row, or a vector that offsets cuts into bags.
        weight: (num_embeddings, embedding_dim).
        offsets: where each bag begins in a vector.
        max_norm, norm_type: scale down rows that are longer, as embedding does.
        scale_grad_by_freq: divide a row's gradient by how often it was looked up.
        mode: 'sum', 'mean' or 'max'.
        sparse: the table gets a sparse gradient, a row per index (see SparseAdam).
        per_sample_weights: a factor per index, for mode 'sum'.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: indices that are passed over.

    Example:
        >>> table = rl.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
        >>> F.embedding_bag(rl.tensor([0, 1, 2]), table, offsets=rl.tensor([0, 2]), mode="sum")
        tensor([[3., 3.],
                [3., 3.]])
    """
    # The order that PyTorch had before version 0.4.1.
    if weight.dtype == _C.int64 and input.is_floating_point():
        warnings.warn("embedding_bag: give the indices first, then the weight", stacklevel=2)
        input, weight = weight, input
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            "embedding_bag: per_sample_weights must have the shape of the indices, "
            f"{list(input.shape)}, got {list(per_sample_weights.shape)}"
        )
    if weight.dim() != 2:
        raise ValueError(f"embedding_bag: weight must have 2 dims, got {list(weight.shape)}")
    input, bounds = _bags(input, offsets, include_last_offset)
    if per_sample_weights is not None:
        per_sample_weights = per_sample_weights.reshape(-1)[: input.numel()]
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if mode == "max" and (scale_grad_by_freq or sparse):
        name = "scale_grad_by_freq" if scale_grad_by_freq else "sparse gradients"
        raise ValueError(f"embedding_bag: mode 'max' does not go with {name}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights are for mode 'sum', got mode {mode!r}"
        )
    padding_idx = row_to_skip("embedding_bag", padding_idx, weight.shape[0])
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    padding_idx = -1 if padding_idx is None else padding_idx
    if sparse and _takes_sparse_gradient(weight):
        from rushlight.sparse._gradients import bag_with_sparse_gradient

        return bag_with_sparse_gradient(
            weight, input, bounds, mode == "mean", per_sample_weights, padding_idx,
            scale_grad_by_freq,
        )  # fmt: skip
    if scale_grad_by_freq and weight.requires_grad:
        return _bag_by_frequency(input, weight, bounds, mode, per_sample_weights, padding_idx)
    return _C._embedding_bag(
        weight, input, bounds, _BAG_MODES[mode], per_sample_weights, padding_idx
    )[0]


def _bags(input, offsets, include_last_offset):
    """The indices end to end, and where each bag begins, with the end of the last one."""
    if input.dtype not in (_C.int64, _C.int32):
        raise _C.DTypeError(f"embedding_bag: indices must be int64 or int32, got {input.dtype}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag: a 2-d input has one bag per row and takes no offsets, got offsets "
                f"of shape {list(offsets.shape)}"
            )
        bags, size = input.shape
        return input.reshape(-1), _C.arange(bags + 1, device=input.device) * size
    if input.dim() != 1:
        raise ValueError(
            f"embedding_bag: the input must have 1 or 2 dims, got shape {list(input.shape)}"
        )
    if offsets is None:
        raise ValueError("embedding_bag: a 1-d input needs offsets that say where bags begin")
    if offsets.dim() != 1:
        raise ValueError(f"embedding_bag: offsets must have 1 dim, got {list(offsets.shape)}")
    if offsets.dtype not in (_C.int64, _C.int32):
        raise _C.DTypeError(f"embedding_bag: offsets must be integers, got {offsets.dtype}")
    offsets = offsets.long()
    if offsets.is_cuda and include_last_offset:
        if not offsets.numel():
            raise RuntimeError("embedding_bag: include_last_offset needs at least one offset")
        return input, offsets
    if not offsets.is_cuda and offsets.numel() and int(offsets[0]) != 0:
        raise RuntimeError(f"embedding_bag: the first offset must be 0, got {int(offsets[0])}")
    if include_last_offset:
        if not offsets.numel():
            raise RuntimeError("embedding_bag: include_last_offset needs at least one offset")
        end = int(offsets[-1])
        return input[:end] if 0 <= end < input.numel() else input, offsets
    end = _C.full((1,), input.numel(), dtype=_C.int64, device=input.device)
    return input, _C.cat([offsets, end])


def _bag_by_frequency(input, weight, bounds, mode, per_sample_weights, padding_idx):
    """The rows first, whose look-up divides their gradients, then their bags."""
    rows = _C.embedding(weight, input, padding_idx, True)
    numbers = _C.arange(input.numel(), device=input.device)
    if padding_idx >= 0:  # row n stands for padding
        rows = _C.cat([rows, rows.new_zeros(1, rows.shape[1])])
        numbers = numbers.masked_fill(input == padding_idx, input.numel())
        padding_idx = input.numel()
    return _C._embedding_bag(
        rows, numbers, bounds, _BAG_MODES[mode], per_sample_weights, padding_idx
    )[0]


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dim with one 1 at the index that the tensor holds.

    Arguments:
        tensor: int64 classes, none negative.
        num_classes: how many; -1 takes one more than the largest.

    Returns: an int64 tensor with one more dim.

    Example:
        >>> F.one_hot(rl.tensor([0, 2]), num_classes=4)
        tensor([[1, 0, 0, 0],
                [0, 0, 1, 0]])
    """
    if tensor.dtype != _C.int64:
        raise _C.DTypeError(f"one_hot: indices must be int64, got {tensor.dtype}")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("one_hot: num_classes must be given for an empty tensor")
        return _C.zeros((*tensor.shape, num_classes), dtype=_C.int64, device=tensor.device)
    # On a GPU the values are looked at where that is needed only; scatter_ finds bad ones there.
    if tensor.device.type != "meta" and not (tensor.is_cuda and num_classes > 0):
        least, most = int(tensor.min()), int(tensor.max())
        if least < 0:
            raise RuntimeError(f"one_hot: indices must not be negative, got {least}")
        if num_classes == -1:
            num_classes = most + 1
        elif num_classes < 1:
            raise RuntimeError(f"one_hot: num_classes must be positive, got {num_classes}")
        elif most >= num_classes:
            raise RuntimeError(f"one_hot: index {most} is out of range for {num_classes} classes")
    elif num_classes == -1:
        raise RuntimeError("one_hot: num_classes must be given for a meta tensor")
    out = _C.zeros((*tensor.shape, num_classes), dtype=_C.int64, device=tensor.device)
    return out.scatter_(-1, tensor.unsqueeze(-1), 1)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x divided by its p-norm along dim, or by eps where that is smaller.

    Arguments:
        input: the tensor to work on.
        p: which norm.
        dim: the dim along which vectors lie.
        eps: shorter vectors are divided by this instead.
        out: a tensor to write the result into.

    Example:
        >>> F.normalize(rl.tensor([[3.0, 4.0]]), p=2.0, dim=1)
        tensor([[0.6000, 0.8000]])
        >>> F.normalize(rl.tensor([[1.0, 3.0]]), p=1.0)
        tensor([[0.2500, 0.7500]])
    """
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / length if out is None else _C.div(input, length, out=out)


@autocast_policy(cuda="float32")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along dim; lengths below eps count as eps.

    Arguments:
        x1, x2: tensors that broadcast.
        dim: the dim along which vectors lie.
        eps: the smallest length that is divided by.

    Example:
        >>> F.cosine_similarity(rl.tensor([[1.0, 0.0]]), rl.tensor([[1.0, 1.0]]), dim=1)
        tensor([0.7071])
    """
    kind = _C.promote_types(x1.dtype, x2.dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise _C.DTypeError(f"cosine_similarity: expects floating point tensors, got {kind}")
    x1, x2 = broadcast_tensors(x1.to(kind), x2.to(kind)) if x1.shape != x2.shape else (
        x1.to(kind), x2.to(kind))  # fmt: skip
    # Each is divided before the product, which then cannot overflow.
    first = x1 / x1.norm(2, dim, keepdim=True).clamp_min(eps)
    second = x2 / x2.norm(2, dim, keepdim=True).clamp_min(eps)
    return (first * second).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dim.

    Arguments:
        x1, x2: vectors in the last dim; the other dims broadcast.
        p: which norm.
        eps: added to each difference, so that the gradient exists where both are equal.
        keepdim: keep each reduced dim with size 1.

    Example:
        >>> F.pairwise_distance(rl.tensor([[0.0, 0.0]]), rl.tensor([[3.0, 4.0]]), p=1.0)
        tensor([7.0000])
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@autocast_policy(cuda="float32")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distance of every two rows, those of the first row first.

    Arguments:
        input: (N, M), N vectors.
        p: which norm.

    Returns: a vector of N (N - 1) / 2 distances: of row 0 to all after it, of row 1 to all after
        it, ...

    Example:
        >>> F.pdist(rl.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]]), p=2.0)
        tensor([5., 4., 3.])
        >>> F.pdist(rl.tensor([[0.0, 0.0], [3.0, 4.0]]), p=1.0)
        tensor([7.])
    """
    if input.dim() != 2:
        raise _C.ShapeError(f"pdist: the input must have 2 dims, got shape {list(input.shape)}")
    if not input.is_floating_point():
        raise _C.DTypeError(f"pdist: expects floating point rows, got {input.dtype}")
    p = float(p)
    if not p >= 0:
        raise RuntimeError(f"pdist: p must not be negative, got {p}")
    first, second = _C.triu_indices(input.shape[0], input.shape[0], 1, device=input.device)
    return (input.index_select(0, first) - input.index_select(0, second)).norm(p, 1)
