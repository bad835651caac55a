"""Attention: the op itself (csrc/ops/nn/attention.cpp), and many heads of it with projections."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn.functional.padding import pad

__all__ = ["multi_head_attention_forward"]


def _require(ok, text):
    """PyTorch asserts these; so programs may catch AssertionError."""
    if not ok:
        raise AssertionError(f"multi_head_attention: {text}")


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the inputs have a batch dim; raises when they do not go together."""
    dims = query.dim()
    _require(
        dims in (2, 3),
        "query must be (length, batch, features), or (length, features) without a batch, got "
        f"shape {list(query.shape)}",
    )
    kind = "batched (3-D)" if dims == 3 else "unbatched (2-D)"
    _require(
        key.dim() == dims and value.dim() == dims,
        f"key and value must be {kind} as query is, got shapes {list(query.shape)}, "
        f"{list(key.shape)} and {list(value.shape)}",
    )
    if key_padding_mask is not None:
        _require(
            key_padding_mask.dim() == dims - 1,
            f"key_padding_mask must have {dims - 1} dims for {kind} inputs, got shape "
            f"{list(key_padding_mask.shape)}",
        )
    if attn_mask is not None:
        _require(
            attn_mask.dim() in (2, 3),
            f"attn_mask must have 2 or 3 dims, got shape {list(attn_mask.shape)}",
        )
        if dims == 2 and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            _require(
                tuple(attn_mask.shape) == expected,
                f"a 3-D attn_mask for unbatched inputs must be (heads, queries, keys) "
                f"{list(expected)}, got {list(attn_mask.shape)}",
            )
    return dims == 3


def _check_kind(mask, name):
    if mask is not None and mask.dtype != _C.bool and not mask.is_floating_point():
        raise AssertionError(
            f"multi_head_attention: {name} must be bool or floating point, got {mask.dtype}"
        )


def _as_float(mask, dtype):
    """True becomes -inf: nobody looks there."""
    if mask.dtype != _C.bool:
        return mask
    return _C.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))


def _sized_mask(attn_mask, batch, num_heads, queries, keys):
    """attn_mask as (queries, keys) or (batch, heads, queries, keys)."""
    if attn_mask.dim() == 2:
        expected = (queries, keys)
    else:
        expected = (batch * num_heads, queries, keys)
    if tuple(attn_mask.shape) != expected:
        raise RuntimeError(
            f"multi_head_attention: a {attn_mask.dim()}-D attn_mask must have shape "
            f"{list(expected)}, got {list(attn_mask.shape)}"
        )
    return attn_mask if attn_mask.dim() == 2 else attn_mask.view(batch, num_heads, queries, keys)


def _merged_mask(attn_mask, key_padding_mask, dtype):
    """What scaled_dot_product_attention takes. In its bool masks True means: look here."""
    if key_padding_mask is not None:
        key_padding_mask = key_padding_mask[:, None, None, :]
    if attn_mask is None or key_padding_mask is None:
        mask = key_padding_mask if attn_mask is None else attn_mask
        return mask.logical_not() if mask is not None and mask.dtype == _C.bool else mask
    if attn_mask.dtype == key_padding_mask.dtype == _C.bool:
        return (attn_mask | key_padding_mask).logical_not()
    return _as_float(attn_mask, dtype) + _as_float(key_padding_mask, dtype)


def _projected(query, key, value, weight, bias):
    """Three linear maps whose weights lie one below the other in `weight`."""
    size = query.shape[-1]
    if key is value:
        first, rest = weight.split([size, 2 * size])
        bias_q, bias_rest = (None, None) if bias is None else bias.split([size, 2 * size])
        k, v = _C.linear(key, rest, bias_rest).split(size, -1)
        return _C.linear(query, first, bias_q), k, v
    weights = weight.split(size)
    biases = (None, None, None) if bias is None else bias.split(size)
    inputs = (query, key, value)
    return [_C.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


class _Masks:
    """The two masks while keys are added at the end: everybody may look at those."""

    def __init__(self, attn_mask: Any, key_padding_mask: Any) -> None:
        self.attn, self.padding = attn_mask, key_padding_mask

    def add_key(self) -> None:
        if self.attn is not None:
            self.attn = pad(self.attn, (0, 1))
        if self.padding is not None:
            self.padding = pad(self.padding, (0, 1))


def _attention(query, key, value, embed_dim, num_heads, in_proj_weight, in_proj_bias, bias_k,
               bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, key_padding_mask,
               need_weights, attn_mask, separate_weights, static_k, static_v, average, is_causal,
               batch_first):  # fmt: skip
    """multi_head_attention_forward without its defaults; batch_first: (batch, length, features)."""
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    _check_kind(key_padding_mask, "key_padding_mask")
    _check_kind(attn_mask, "attn_mask")
    if (
        key_padding_mask is not None
        and attn_mask is not None
        and key_padding_mask.dtype != attn_mask.dtype
    ):
        warnings.warn(
            "multi_head_attention: key_padding_mask and attn_mask have different dtypes "
            f"({key_padding_mask.dtype} and {attn_mask.dtype}), which is deprecated; use the same",
            stacklevel=4,
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "multi_head_attention: is_causal=True is a hint about attn_mask, which must be given "
            "too; see Transformer.generate_square_subsequent_mask"
        )
    is_self = query is key and key is value
    if not batched:
        batch_first = True
        q, k = query.unsqueeze(0), key.unsqueeze(0)
        if value is key:
            query, key, value = k if key is query else q, k, k
        else:
            query, key, value = q, k, q if value is query else value.unsqueeze(0)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    along = 1 if batch_first else 0  # the dim of positions
    batch, length, features = query.shape[1 - along], query.shape[along], query.shape[2]
    _require(
        features == embed_dim,
        f"query must have embed_dim={embed_dim} features, got shape {list(query.shape)}",
    )
    size = embed_dim // num_heads
    _require(
        size * num_heads == embed_dim,
        f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}",
    )
    if separate_weights is not None:
        _require(
            key.shape[:2] == value.shape[:2],
            "key and value must agree in length and batch, got shapes "
            f"{list(key.shape)} and {list(value.shape)}",
        )
    else:
        _require(
            key.shape == value.shape,
            f"key and value must have the same shape, got {list(key.shape)} and "
            f"{list(value.shape)}",
        )
    keys = key.shape[along]
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the kernel knows it by itself
    else:
        is_causal = False
    if attn_mask is not None:
        attn_mask = _sized_mask(attn_mask, batch, num_heads, length, keys)

    if separate_weights is not None:
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.split(embed_dim)
        inputs = zip((query, key, value), separate_weights, biases, strict=True)
        q, k, v = (_C.linear(x, w, b) for x, w, b in inputs)
    elif is_self:
        qkv = _C.linear(query, in_proj_weight, in_proj_bias)
        if bias_k is static_k is static_v is None and not add_zero_attn and not need_weights:
            if key_padding_mask is not None:
                _check_padding(key_padding_mask, batch, keys)
            mask = _merged_mask(attn_mask, key_padding_mask, query.dtype)
            out = _C._self_attention(qkv, num_heads, batch_first, mask, dropout_p, is_causal)
            out = _C.linear(out, out_proj_weight, out_proj_bias)
            return (out if batched else out.squeeze(0)), None
        q, k, v = qkv.split(embed_dim, -1)
    else:
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)

    masks = _Masks(attn_mask, key_padding_mask)
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias_k cannot be added to static_k")
        _require(static_v is None, "bias_v cannot be added to static_v")
        shape = (batch, 1, embed_dim) if batch_first else (1, batch, embed_dim)
        k = _C.cat([k, bias_k.expand(shape)], along)
        v = _C.cat([v, bias_v.expand(shape)], along)
        masks.add_key()
    else:
        _require(bias_k is None and bias_v is None, "bias_k and bias_v must be given together")

    def heads(x):
        x = x.unflatten(-1, (num_heads, size))
        return x.transpose(1, 2) if batch_first else x.permute(1, 2, 0, 3)

    def static(x, name):
        _require(
            x.shape[0] == batch * num_heads and x.shape[2] == size,
            f"{name} must be (batch * heads, keys, size) with {batch * num_heads} and {size}, got "
            f"{list(x.shape)}",
        )
        return x.view(batch, num_heads, x.shape[1], size)

    q = heads(q)
    k = heads(k) if static_k is None else static(static_k, "static_k")
    v = heads(v) if static_v is None else static(static_v, "static_v")
    if add_zero_attn:
        k, v = (_C.cat([x, x.new_zeros((batch, num_heads, 1, size))], 2) for x in (k, v))
        masks.add_key()
    if masks.padding is not None:
        _check_padding(masks.padding, batch, k.shape[2])
    mask = _merged_mask(masks.attn, masks.padding, query.dtype)
    weights = None
    if need_weights:
        out, weights = _C._attention_with_weights(q, k, v, mask, dropout_p, is_causal, average)
    else:
        out = _C.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    out = (out.transpose(1, 2) if batch_first else out.permute(2, 0, 1, 3)).flatten(2)
    out = _C.linear(out, out_proj_weight, out_proj_bias)
    if batched:
        return out, weights
    return out.squeeze(0), None if weights is None else weights.squeeze(0)


def _check_padding(key_padding_mask, batch, keys):
    _require(
        tuple(key_padding_mask.shape) == (batch, keys),
        f"key_padding_mask must be (batch, keys) {[batch, keys]}, got "
        f"{list(key_padding_mask.shape)}",
    )


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads over projected inputs: (output, weights or None).

    nn.MultiheadAttention calls this; use it, or scaled_dot_product_attention.

    Arguments:
        query, key, value: (L, N, E), (S, N, E) and (S, N, E).
        embed_dim_to_check, num_heads: E, and into how many heads it is cut.
        in_proj_weight, in_proj_bias: of the three projections in one, (3 E, E) and (3 E).
        bias_k, bias_v: a key and a value that every query sees, or None.
        add_zero_attn: add a key and a value of zeros.
        dropout_p, training: probability of dropping a weight, while training.
        out_proj_weight, out_proj_bias: of the projection of the result.
        key_padding_mask, attn_mask: which keys are not looked at, by all queries (N, S) or by
            each (L, S).
        need_weights, average_attn_weights: return the weights, as their mean over heads.
        use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight: projections of
            their own.
        static_k, static_v: projected keys and values.
        is_causal: attn_mask is the causal mask.

    Example:
        >>> layer = nn.MultiheadAttention(4, 2)
        >>> x = rl.zeros(3, 1, 4)
        >>> out, weights = F.multi_head_attention_forward(
        ...     x, x, x, 4, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0,
        ...     layer.out_proj.weight, layer.out_proj.bias, training=False)
        >>> out.shape, weights.shape
        (rushlight.Size([3, 1, 4]), rushlight.Size([1, 3, 3]))
    """
    separate = None
    if use_separate_proj_weight:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, weight in zip("qkv", separate, strict=True):
            _require(
                weight is not None,
                f"use_separate_proj_weight needs {name}_proj_weight, which is None",
            )
    else:
        _require(in_proj_weight is not None, "in_proj_weight is None")
    return _attention(
        query,
        key,
        value,
        embed_dim_to_check,
        num_heads,
        in_proj_weight,
        in_proj_bias,
        bias_k,
        bias_v,
        add_zero_attn,
        dropout_p if training else 0.0,
        out_proj_weight,
        out_proj_bias,
        key_padding_mask,
        need_weights,
        attn_mask,
        separate,
        static_k,
        static_v,
        average_attn_weights,
        is_causal,
        batch_first=False,
    )
