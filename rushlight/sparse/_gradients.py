"""Look-ups whose tables get sparse gradients: one row per index, and none for the other rows."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import Function
from rushlight.sparse._convert import groups_of, merged
from rushlight.sparse._tensor import COO, make


def _of_rows(indices, rows, count, padding_idx):
    """The gradient of a table of `count` rows; the row padding_idx gets none."""
    indices = indices.reshape(-1).long()
    rows = merged(rows, rows.dim() - 1)
    if padding_idx >= 0:
        kept = (indices != padding_idx).nonzero().squeeze(1)
        indices, rows = indices.index_select(0, kept), rows.index_select(0, kept)
    return make(COO, (indices.unsqueeze(0),), rows, (count, rows.shape[1]))


def _check_by_count(by_count):
    if by_count:
        raise RuntimeError("embedding: scale_grad_by_freq does not go with sparse gradients")


class _Embedding(Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, indices: Tensor, padding_idx: int, by_count: bool) -> Any:
        ctx.save_for_backward(indices)
        ctx.rest = weight.shape[0], padding_idx, by_count
        return _C.embedding(weight, indices, padding_idx, False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (indices,) = ctx.saved_tensors
        count, padding_idx, by_count = ctx.rest
        _check_by_count(by_count)
        return _of_rows(indices, grad, count, padding_idx), None, None, None


def embedding_with_sparse_gradient(
    weight: Tensor, indices: Tensor, padding_idx: int, by_count: bool
) -> Tensor:
    """embedding(sparse=True)."""
    return _Embedding.apply(weight, indices, padding_idx, by_count)


class _Bag(Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, by: Any, indices: Tensor, bounds: Tensor, mean: bool,
                padding_idx: int, by_count: bool) -> Any:  # fmt: skip
        out, counts, _ = _C._embedding_bag(weight, indices, bounds, int(mean), by, padding_idx)
        ctx.save_for_backward(weight, by, indices, bounds, counts)
        ctx.rest = mean, padding_idx, by_count
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        weight, by, indices, bounds, counts = ctx.saved_tensors
        mean, padding_idx, by_count = ctx.rest
        _check_by_count(by_count)
        if mean:
            grad = grad / counts.clamp(min=1).to(grad.dtype).unsqueeze(1)
        inside = indices[: int(bounds[-1])]
        each = grad.index_select(0, groups_of(bounds))
        of_weight = of_by = None
        if ctx.needs_input_grad[0]:
            rows = each if by is None else each * by[: inside.shape[0]].unsqueeze(1)
            of_weight = _of_rows(inside, rows, weight.shape[0], padding_idx)
        if by is not None and ctx.needs_input_grad[1]:
            found = (each * weight.index_select(0, inside)).sum(1)
            if padding_idx >= 0:
                found = found.masked_fill(inside == padding_idx, 0)
            of_by = _C.zeros_like(by).index_copy_(0, _C.arange(inside.shape[0], device=by.device),
                                                  found)  # fmt: skip
        return of_weight, of_by, None, None, None, None, None


def bag_with_sparse_gradient(weight: Tensor, indices: Tensor, bounds: Tensor, mean: bool, by: Any,
                             padding_idx: int, by_count: bool) -> Tensor:  # fmt: skip
    """embedding_bag(sparse=True)."""
    return _Bag.apply(weight, by, indices, bounds, mean, padding_idx, by_count)
