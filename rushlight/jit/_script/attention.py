"""Attention as the compiler reads it: of the module, and of the function that is given weights."""

from __future__ import annotations

from typing import Optional

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.nn.functional import attention
from rushlight.nn.modules import transformer

# ruff: noqa: UP045


def is_causal(mask, hint, length):
    if hint is not None:
        return hint
    if mask is None:
        return False
    if list(mask.shape) != [length, length]:
        return False
    expected = transformer._generate_square_subsequent_mask(length, mask.device, mask.dtype)
    return bool((mask == expected).all())


def _merged_mask(attn_mask, key_padding_mask, dtype):
    if key_padding_mask is None:
        if attn_mask is None:
            return None
        return attn_mask.logical_not() if attn_mask.dtype == _C.bool else attn_mask
    padding = key_padding_mask[:, None, None, :]
    if attn_mask is None:
        return padding.logical_not() if padding.dtype == _C.bool else padding
    if attn_mask.dtype == _C.bool and padding.dtype == _C.bool:
        return (attn_mask | padding).logical_not()
    return attention._as_float(attn_mask, dtype) + attention._as_float(padding, dtype)


def multihead(
    self,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Optional[Tensor] = None,
    need_weights: bool = True,
    attn_mask: Optional[Tensor] = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
):
    alike = self._qkv_same_embed_dim
    return _attended(
        query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
        self.bias_k, self.bias_v, self.add_zero_attn, self.dropout if self.training else 0.0,
        self.out_proj.weight, self.out_proj.bias, key_padding_mask, need_weights, attn_mask,
        None if alike else self.q_proj_weight, None if alike else self.k_proj_weight,
        None if alike else self.v_proj_weight, average_attn_weights, is_causal, self.batch_first,
    )  # fmt: skip


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None,
    need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None,
    k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
    is_causal=False,
):  # fmt: skip
    if static_k is not None or static_v is not None:
        raise NotImplementedError(
            "multi_head_attention_forward: static_k and static_v are not there in programs"
        )
    separate = use_separate_proj_weight
    return _attended(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k,
        bias_v, add_zero_attn, dropout_p if training else 0.0, out_proj_weight, out_proj_bias,
        key_padding_mask, need_weights, attn_mask, q_proj_weight if separate else None,
        k_proj_weight if separate else None, v_proj_weight if separate else None,
        average_attn_weights, is_causal, False,
    )  # fmt: skip


def _attended(
    query, key, value, embed_dim, heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn, dropout_p, out_weight, out_bias, key_padding_mask, need_weights, attn_mask,
    q_weight, k_weight, v_weight, average, is_causal, batch_first,
):  # fmt: skip
    batched = query.dim() == 3
    if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
        raise _C.ShapeError(
            "multi_head_attention: query, key and value must have 3 dimensions, or 2 without a "
            "batch, got "
            f"shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "multi_head_attention: is_causal=True is a hint about attn_mask, which must be given "
            "too; see Transformer.generate_square_subsequent_mask"
        )
    same = query is key and key is value
    if batch_first and batched:
        q, k, v, first = query, key, value, True
    elif batched:
        q, k, v, first = query, key, value, False
    else:
        q, k, v, first = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), True
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    along = 1 if first else 0
    batch, length, keys = q.size(1 - along), q.size(along), k.size(along)
    size = embed_dim // heads
    if q.size(2) != embed_dim:
        raise RuntimeError(
            f"multi_head_attention: query must have embed_dim={embed_dim} features, got shape "
            f"{list(query.shape)}"
        )
    # Where the mask is the causal one, the kernel knows it by itself.
    hinted = is_causal and key_padding_mask is None and not need_weights
    mask = _merged_mask(
        None if hinted else _sized(attn_mask, batch, heads, length, keys), key_padding_mask, q.dtype
    )
    if q_weight is None and bias_k is None and not add_zero_attn:
        if same and not need_weights:
            qkv = _C.linear(q, in_proj_weight, in_proj_bias)
            out = _C._self_attention(qkv, heads, first, mask, dropout_p, hinted)
            out = _C.linear(out, out_weight, out_bias)
            return (out if batched else out.squeeze(0)), None
    q, k, v = _projections(
        q, k, v, same, embed_dim, in_proj_weight, in_proj_bias, q_weight, k_weight, v_weight
    )
    if bias_k is not None:
        shape = [batch, 1, embed_dim] if first else [1, batch, embed_dim]
        k = _C.cat([k, bias_k.expand(shape)], along)
        v = _C.cat([v, bias_v.expand(shape)], along)
    q, k, v = (
        _heads(q, heads, size, first),
        _heads(k, heads, size, first),
        _heads(v, heads, size, first),
    )
    if add_zero_attn:
        k = _C.cat([k, k.new_zeros([batch, heads, 1, size])], 2)
        v = _C.cat([v, v.new_zeros([batch, heads, 1, size])], 2)
    if mask is not None and k.size(2) != keys:
        # Everybody may look at the keys that were added.
        if mask.dtype == _C.bool:
            mask = F.pad(mask.logical_not(), [0, k.size(2) - keys]).logical_not()
        else:
            mask = F.pad(mask, [0, k.size(2) - keys])
    weights: Optional[Tensor] = None
    if need_weights:
        out, found = _C._attention_with_weights(q, k, v, mask, dropout_p, hinted, average)
        weights = found if batched else found.squeeze(0)
    else:
        out = _C.scaled_dot_product_attention(q, k, v, mask, dropout_p, hinted)
    out = (out.transpose(1, 2) if first else out.permute(2, 0, 1, 3)).flatten(2)
    out = _C.linear(out, out_weight, out_bias)
    return (out if batched else out.squeeze(0)), weights


def _sized(attn_mask, batch, heads, length, keys):
    if attn_mask is None:
        return None
    expected = [length, keys] if attn_mask.dim() == 2 else [batch * heads, length, keys]
    if list(attn_mask.shape) != expected:
        raise RuntimeError(
            f"multi_head_attention: a {attn_mask.dim()}-D attn_mask must have shape {expected}, "
            "got "
            f"{list(attn_mask.shape)}"
        )
    return attn_mask if attn_mask.dim() == 2 else attn_mask.view(batch, heads, length, keys)


def _projections(q, k, v, same, size, in_weight, in_bias, q_weight, k_weight, v_weight):
    if q_weight is not None:
        if in_bias is None:
            return (
                _C.linear(q, q_weight, None),
                _C.linear(k, k_weight, None),
                _C.linear(v, v_weight, None),
            )
        bias = in_bias.split(size)
        return (
            _C.linear(q, q_weight, bias[0]),
            _C.linear(k, k_weight, bias[1]),
            _C.linear(v, v_weight, bias[2]),
        )
    if same:
        a, b, c = _C.linear(q, in_weight, in_bias).split(size, -1)
        return a, b, c
    if k is v:
        weights = in_weight.split([size, 2 * size])
        if in_bias is None:
            a, b = _C.linear(k, weights[1], None).split(size, -1)
            return _C.linear(q, weights[0], None), a, b
        biases = in_bias.split([size, 2 * size])
        a, b = _C.linear(k, weights[1], biases[1]).split(size, -1)
        return _C.linear(q, weights[0], biases[0]), a, b
    weights = in_weight.split(size)
    if in_bias is None:
        return (
            _C.linear(q, weights[0], None),
            _C.linear(k, weights[1], None),
            _C.linear(v, weights[2], None),
        )
    biases = in_bias.split(size)
    return (
        _C.linear(q, weights[0], biases[0]),
        _C.linear(k, weights[1], biases[1]),
        _C.linear(v, weights[2], biases[2]),
    )


def _heads(x, heads, size, first):
    x = x.unflatten(-1, [heads, size])
    return x.transpose(1, 2) if first else x.permute(1, 2, 0, 3)
