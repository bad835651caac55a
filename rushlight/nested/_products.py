"""Products of nested tensors, and attention over them."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nested._tensor import (
    NestedTensor,
    contiguous,
    from_padded,
    join,
    make,
    padded,
    rows_first,
    sizes_of,
    with_values,
)

__all__ = ["bmm", "linear", "matmul", "mm", "scaled_dot_product_attention"]


def linear(input: Any, weight: Any, bias: Any = None) -> NestedTensor:
    """See nn.functional.linear."""
    from rushlight.nn.functional import linear as dense

    if not isinstance(input, NestedTensor) or isinstance(weight, NestedTensor):
        raise NotImplementedError("linear: input may be nested, weight and bias may not")
    if input._ragged_idx == input._vals.dim():
        raise RuntimeError("linear: the last dim of the input is ragged; transpose it first")
    return with_values(input, dense(input._vals, weight, bias))


def _refuse(x, y):
    shown = [tuple(sizes_of(t)) if isinstance(t, NestedTensor) else tuple(t.shape) for t in (x, y)]
    raise NotImplementedError(
        f"matmul: not there between sizes {shown[0]} and {shown[1]} of which one is ragged; "
        "multiply the parts (unbind()), or to_padded_tensor()"
    )


def matmul(x: Any, other: Any) -> Tensor:
    """See Tensor.matmul."""
    y = other
    for given in (x, y):
        if not isinstance(given, Tensor):
            raise TypeError(f"matmul: expected tensors, got {type(given).__name__}")
    if isinstance(x, NestedTensor) and isinstance(y, NestedTensor):
        return _both_nested(x, y)
    if isinstance(x, NestedTensor):
        last = x._ragged_idx == x._vals.dim()
        if y.dim() <= 2 and not last:
            return with_values(x, _C.matmul(x._vals, y))
        if y.dim() == x._vals.dim() + 1 and x._ragged_idx == x._vals.dim() - 1:
            if y.shape[0] not in (1, len(x._ragged)):
                _refuse(x, y)
            own = contiguous(x)
            return with_values(own, from_padded(_C.matmul(padded(own, 0), y), own))
        _refuse(x, y)
    if y._ragged_idx != y._vals.dim() or y._vals.dim() < 2:
        return _refuse(x, y)
    if x.dim() <= 2:  # a matrix or a vector from the left; a vector takes a dim away
        return with_values(y, _C.matmul(x, y._vals), y._ragged_idx - (x.dim() == 1))
    if x.dim() == y._vals.dim() + 1:
        own = contiguous(y)
        return with_values(own, from_padded(_C.matmul(x, padded(own, 0)), own))
    return _refuse(x, y)


def _both_nested(x, y):
    """Products over the ragged dim, which give one size; or of ragged rows, part by part."""
    same = x._ragged.same_as(y._ragged)
    if same and x._ragged_idx == x._vals.dim() and y._ragged_idx == y._vals.dim() - 1:
        return _C.matmul(padded(x, 0), padded(y, 0))
    if x._ragged_idx == x._vals.dim() - 1 and y._ragged_idx not in (x._vals.dim(), y._vals.dim()):
        from rushlight.nested._shapes import unbind

        if len(x._ragged) != len(y._ragged):
            _refuse(x, y)
        parts = [_C.matmul(a, b) for a, b in zip(unbind(x), unbind(y), strict=True)]
        return join(parts, parts[0].dim() - 2, x._jagged)
    return _refuse(x, y)


def bmm(x: Any, mat2: Any) -> Tensor:
    """See rushlight.bmm."""
    if not x.dim() == mat2.dim() == 3:
        raise _C.ShapeError(f"bmm: both tensors must have 3 dims, got {x.dim()} and {mat2.dim()}")
    return matmul(x, mat2)


def mm(x: Any, mat2: Any) -> Tensor:
    """See rushlight.mm."""
    return matmul(x, mat2)


def _rows(name, x):
    """(batch, heads, ragged, size) as rows (tokens, heads, size), and where sequences lie."""
    if not isinstance(x, NestedTensor):
        raise NotImplementedError(
            f"scaled_dot_product_attention: {name} is a tensor of one size beside nested ones; "
            "as_nested_tensor(x, layout=jagged) nests it"
        )
    if x._vals.dim() != 3 or x._ragged_idx != 2:
        raise NotImplementedError(
            f"scaled_dot_product_attention: nested {name} must have the sizes (batch, heads, "
            f"ragged, size), got {tuple(sizes_of(x))}"
        )
    return rows_first(x)


def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None,
                                 dropout_p: float = 0.0, is_causal: bool = False,
                                 *, scale: Any = None,
                                 enable_gqa: bool = False) -> NestedTensor:  # fmt: skip
    """See nn.functional.scaled_dot_product_attention; each sequence looks at itself."""
    if attn_mask is not None:
        raise NotImplementedError(
            "scaled_dot_product_attention: nested tensors take no attn_mask; is_causal does, and "
            "to_padded_tensor() gives tensors that take masks"
        )
    (q, q_ragged), (k, k_ragged), (v, v_ragged) = (
        _rows(n, x) for n, x in (("query", query), ("key", key), ("value", value))
    )
    if not k_ragged.same_as(v_ragged) or len(q_ragged) != len(k_ragged):
        raise RuntimeError(
            "scaled_dot_product_attention: key and value must have the same sequences, and query "
            "as many"
        )
    if q.shape[1] != k.shape[1] and not enable_gqa:
        raise RuntimeError(
            f"scaled_dot_product_attention: query has {q.shape[1]} heads, key {k.shape[1]}: pass "
            "enable_gqa=True for queries that share keys"
        )
    if dropout_p > 0 or (is_causal and not q_ragged.same_as(k_ragged)):
        rows = _part_by_part(q, k, v, q_ragged, k_ragged, dropout_p, is_causal, scale, enable_gqa)
    else:
        factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
        bounds = [*q_ragged.starts, q.shape[0]]
        rows, _ = _C._varlen_attention(
            q, k, v, bounds, k_ragged.starts, k_ragged.counts, factor, -1, 0 if is_causal else -1
        )
    return make(rows.movedim(0, 1), q_ragged, 2, query._jagged)


def _part_by_part(q, k, v, q_ragged, k_ragged, dropout_p, is_causal, scale, enable_gqa):
    outs = []
    places = zip(q_ragged.starts, q_ragged.counts, k_ragged.starts, k_ragged.counts, strict=True)
    for a, n, b, m in places:
        parts = (t.narrow(0, at, c).movedim(0, 1) for t, at, c in ((q, a, n), (k, b, m), (v, b, m)))
        outs.append(_C.scaled_dot_product_attention(
            *parts, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        ).movedim(0, 1))  # fmt: skip
    return _C.cat(outs, 0)
